package server

import (
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	testutil "k8s.io/kubernetes/test/utils"
)

// loopbackName is the name under which kube-apiserver's own client knows the server, whatever certificates clients from outside are shown.
const loopbackName = "apiserver-loopback-client"

type pair struct{ cert, key []byte }

// serving is the certificate of all servers of this process. It is its own authority.
var serving = sync.OnceValue(func() pair {
	names := []string{"localhost", "kubernetes.default.svc", "kubernetes.default", "kubernetes", loopbackName}
	c, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, names)
	if err != nil {
		panic(err)
	}
	return pair{c, key}
})

// writeServing writes the serving certificate where kube-apiserver keeps it in its directory for certificates.
func writeServing(dir string) error {
	return errors.Join(os.WriteFile(filepath.Join(dir, "apiserver.crt"), serving().cert, 0o600), os.WriteFile(filepath.Join(dir, "apiserver.key"), serving().key, 0o600))
}

// Loopback is the argument that makes the server show its own certificate to the client of ClientConfig.
func Loopback(dir string) string {
	return "--tls-sni-cert-key=" + filepath.Join(dir, "apiserver.crt") + "," + filepath.Join(dir, "apiserver.key") + ":" + loopbackName
}

// Authority is a certificate authority.
type Authority struct {
	Cert *x509.Certificate
	Key  *rsa.PrivateKey
}

// NewAuthority returns a new certificate authority.
func NewAuthority(name string) (Authority, error) {
	key, err := testutil.NewPrivateKey()
	if err != nil {
		return Authority{}, err
	}
	c, err := cert.NewSelfSignedCACert(cert.Config{CommonName: name}, key)
	return Authority{c, key}, err
}

// FrontProxyAuthority and ClientAuthority are authorities of all servers of this process.
var (
	FrontProxyAuthority = sync.OnceValues(func() (Authority, error) { return NewAuthority("front-proxy-ca") })
	ClientAuthority     = sync.OnceValues(func() (Authority, error) { return NewAuthority("client-ca") })
)

// Write writes the certificate into a file.
func (a Authority) Write(name string) error {
	return os.WriteFile(name, testutil.EncodeCertPEM(a.Cert), 0o600)
}

var tokenKey = sync.OnceValues(keyutil.MakeEllipticPrivateKeyPEM)

// WriteTokenKey writes the key that signs tokens of ServiceAccounts, the same for all servers of this process, and returns the file.
func WriteTokenKey(dir string) (string, error) {
	key, err := tokenKey()
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "service-account.key")
	return name, os.WriteFile(name, key, 0o600)
}
