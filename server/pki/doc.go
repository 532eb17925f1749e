// Package pki keeps the certificates of a Rowlock server: its certificate authority, its serving certificate, and the
// administrator's client certificate inside admin.kubeconfig. What is missing is created, what nears its end or no
// longer fits is renewed, and files that the user gave are read again when they change.
//
//	pki.go         the certificates of one data directory, and when they are renewed
//	issue.go       making and judging certificates (RFC 5280)
//	kubeconfig.go  admin.kubeconfig
//	client.go      certificates for users
//	clientpool.go  whose certificates clients may show
//	provisional.go certificates for the time before the database is there
//	frontproxy.go  the authority and certificate by which servers behind APIServices know this one
//	sni.go         certificates by name, and what of TLS is spoken
//	reload.go      files that another process replaces while the server runs
//	files.go       reading and atomic writing of PEM files
//	shared.go      the authority that servers on one database have together
//	left.go        what is left of that in a database of one server
//	tokenkeys.go   the keys by which tokens of ServiceAccounts are signed and verified
//	sharedkeys.go  which of these keys servers on one database have together
//	keyring.go     exchanging these keys while servers run
//	replace.go     a new key for an authority
//
// In the data directory:
//
//	pki/ca.crt, pki/ca.key                the authority; its key makes an administrator of its holder
//	pki/apiserver.crt, pki/apiserver.key  the serving certificate
//	pki/sa.key                            the keys of ServiceAccount tokens; the first one signs
//	pki/sa.removed                        the IDs of those that were taken away: no file brings them back where servers share a database
//	pki/sa.followed                       which keys, left in the database by servers that shared it, were looked at already
//	admin.kubeconfig                      the administrator's credentials, complete in themselves
package pki
