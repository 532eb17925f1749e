// Command rowlock serves the Kubernetes API from SQL.
//
// What all commands need:
//
//	main.go        the commands, and what ends them
//	help.go        flags in sections
//	choice.go      a flag with a few possible values
//	env.go         flags from the environment
//	configfile.go  flags from a file
//	statedir.go    where data lives without --data-dir
//	logging.go     one log for everything
//	admin.go       how commands reach a control plane
//	memprofile     how seldom the profile of memory is sampled, in all of them
//
// rowlock serve:
//
//	serve.go                   the command, from its start to its end
//	parts.go                   what a server is put together from
//	authentication.go          what a server knows its clients by
//	admission.go               the flags of admission plugins
//	systemd.go                 what systemd is told
//	views.go                   the views that servers keep in the database
//	options.go                 the flags, and what is refused
//	options_audit.go           which requests are recorded
//	options_authentication.go  who is asked who a token stands for
//	options_authorization.go   who decides what users may do
//	options_backup.go          backups that the server makes
//	options_controllers.go     which controllers run
//	options_encryption.go      how objects are encrypted
//	options_flow.go            how many requests may be under way
//	options_frontproxy.go      who may send requests on behalf of others
//	options_history.go         what is kept of writes for people
//	options_http.go            how connections are secured and kept
//	options_kubelets.go        how kubelets are connected to
//	options_services.go        the addresses of Services
//	options_signing.go         by which authorities certificates are signed
//	options_storage.go         the database
//	options_tokens.go          the tokens of ServiceAccounts
//
// In the place of kube-apiserver and etcd:
//
//	kubeapiserver.go        kube-apiserver's command line
//	kubeapiserver_flags.go  the flags that it has
//	envtest.go              rowlock envtest-assets
//	etcd.go                 the etcd that goes with it
//
// Other commands:
//
//	backup.go          rowlock backup
//	restore.go         rowlock restore
//	restore_parts.go   which objects of a backup are taken back into a control plane that runs
//	restore_write.go   writing them
//	history.go         rowlock history
//	history_object.go  one object of it
//	undelete.go        rowlock undelete
//	import.go          rowlock import
//	keys.go            rowlock keys
//	kubeconfig.go      rowlock kubeconfig
//	migrate.go         rowlock migrate
//	rewrite.go         rowlock rewrite
//	sql.go             rowlock sql
//	sql_rows.go        the rows of its answers
//	sql_spool.go       an output whose reader may stand still
//	token.go           rowlock token
//	verify.go          rowlock verify
//	verify_custom.go   custom resources, by their definitions
//	version.go         rowlock version
package main
