// Package pki manages the certificates of a Rowlock server: its certificate authority, its serving certificate, and the
// administrator's client certificate in admin.kubeconfig. It creates missing certificates, renews those that near their
// end or no longer have the right names, and reads files that the user gave again when they change.
//
//	pki.go         the certificates of one data directory, and when they are renewed
//	issue.go       issuing and checking certificates (RFC 5280)
//	kubeconfig.go  admin.kubeconfig
//	client.go      certificates for users
//	clientpool.go  the authorities of client certificates
//	provisional.go certificates for the time before the database is available
//	frontproxy.go  the authority and certificate by which extension API servers recognise this one
//	sni.go         certificates by name, and TLS parameters
//	reload.go      files that another process replaces while the server runs
//	files.go       reading and atomic writing of PEM files
//	shared.go      the authority that servers on one database share
//	left.go        keys that such servers left in what is now the database of one server
//	tokenkeys.go   the keys that sign and verify tokens of ServiceAccounts
//	sharedkeys.go  how servers on one database share these keys
//	keyring.go     exchanging these keys while servers run
//	replace.go     a new key for an authority
//	check.go       files with which no server starts
//
// In the data directory:
//
//	pki/ca.crt, pki/ca.key                the authority; the holder of its key can become administrator
//	pki/ca.next.pem                       the authority that takes its place at the next start
//	pki/ca.previous.crt                   the certificate of the one that was replaced
//	pki/apiserver.crt, pki/apiserver.key  the serving certificate
//	pki/sa.key                            the keys of ServiceAccount tokens; the first one signs
//	pki/sa.removed                        the IDs of removed keys: no file restores them where servers share a database
//	pki/sa.followed                       which keys, left in the database by servers that shared it, were applied already
//	admin.kubeconfig                      the administrator's credentials, complete in themselves
package pki
