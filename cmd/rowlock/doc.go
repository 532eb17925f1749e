// Command rowlock serves the Kubernetes API from SQL.
//
// Shared by all commands:
//
//	main.go        the commands, signals and exit codes
//	help.go        flags in sections
//	choice.go      a flag with a few possible values
//	env.go         flags from the environment
//	configfile.go  flags from a file
//	statedir.go    the default of --data-dir
//	logging.go     one log for everything
//	admin.go       how commands reach a control plane
//	memprofile     the sampling rate of the memory profile
//	parent         the process that started this one
//
// rowlock serve:
//
//	serve.go                   the command, from its start to its end
//	parts.go                   the parts of a server, and their order
//	authentication.go          the parts that authenticate clients
//	admission.go               the flags of admission plugins
//	systemd.go                 notifications for systemd
//	views.go                   the views that servers maintain in the database
//	options.go                 the flags, and their checks
//	options_audit.go           which requests are recorded
//	options_authentication.go  remote authenticators
//	options_authorization.go   the authorizers
//	options_backup.go          backups that the server makes
//	options_controllers.go     which controllers run
//	options_encryption.go      how objects are encrypted
//	options_flow.go            how many requests may be in flight
//	options_frontproxy.go      front proxies, which send requests on behalf of users
//	options_history.go         the object history
//	options_http.go            TLS and HTTP
//	options_kubelets.go        connections to kubelets
//	options_services.go        the addresses of Services
//	options_signing.go         the authorities that sign certificates
//	options_storage.go         the database
//	options_tokens.go          the tokens of ServiceAccounts
//
// In the place of kube-apiserver and etcd:
//
//	kubeapiserver.go        kube-apiserver's command line
//	kubeapiserver_flags.go  its flags
//	envtest.go              rowlock envtest-assets
//	etcd.go                 a stand-in for etcd
//
// Other commands:
//
//	backup.go          rowlock backup
//	restore.go         rowlock restore
//	restore_parts.go   which objects of a backup are restored into a running control plane
//	restore_write.go   writing them
//	restore_status.go  their status and field managers
//	restore_served.go  the versions in which they are written
//	history.go         rowlock history
//	history_object.go  the history of one object
//	undelete.go        rowlock undelete
//	import.go          rowlock import
//	keys.go            rowlock keys
//	kubeconfig.go      rowlock kubeconfig
//	migrate.go         rowlock migrate
//	rewrite.go         rowlock rewrite
//	sql.go             rowlock sql
//	sql_rows.go        the formats of its rows
//	sql_spool.go       an output whose reader may be slow
//	token.go           rowlock token
//	verify.go          rowlock verify
//	verify_custom.go   custom resources, by their definitions
//	version.go         rowlock version
package main
