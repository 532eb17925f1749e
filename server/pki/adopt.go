package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/rowlock/rowlock/resources/files"
)

// Adoption is the key material of a kubeadm or k3s directory that a cluster's keys can be adopted from: existing
// kubeconfigs and tokens stay valid with it.
type Adoption struct {
	// Adopted lists what is adopted, Missing what has to be but cannot be, with the reason. Advice lists flags that the
	// server should be started with.
	Adopted, Missing, Advice []string

	dir   string
	now   time.Time
	files map[string][]byte // contents by name, below pki/
}

// pkiLayout is the layout of a directory of keys.
type pkiLayout struct {
	authority, proxy string
	signing, tokens  string // the keys of tokens: the signing key, and the verifying keys
	clients          string // an authority for client certificates only; empty: there is none
	serving          string // the certificate of the kube-apiserver
}

var (
	// https://kubernetes.io/docs/setup/best-practices/certificates/
	kubeadmLayout = pkiLayout{authority: "ca", proxy: "front-proxy-ca", signing: "sa.key", tokens: "sa.pub", serving: "apiserver.crt"}
	// https://docs.k3s.io/cli/certificate
	k3sLayout = pkiLayout{authority: "server-ca", proxy: "request-header-ca", signing: "service.current.key", tokens: "service.key",
		clients: "client-ca.crt", serving: "serving-kube-apiserver.crt"}
)

// clientCAName is the file below pki/ with an authority for client certificates only.
const clientCAName = "client-ca.crt"

// ErrHasKeys says that a data directory already has other keys.
var ErrHasKeys = errors.New("there are keys already, which clients may believe")

// ReadPKI reads kubeadm's /etc/kubernetes/pki or k3s's /var/lib/rancher/k3s/server/tls. Errors: the directory is neither, or cannot be read.
// Problems of single files are in Adoption.Missing.
func ReadPKI(dir string, now time.Time) (*Adoption, error) {
	layout := kubeadmLayout
	if _, err := os.Stat(filepath.Join(dir, k3sLayout.authority+".crt")); err == nil {
		layout = k3sLayout
	} else if _, err := os.Stat(filepath.Join(dir, layout.authority+".crt")); err != nil {
		return nil, fmt.Errorf("neither kubeadm's ca.crt nor k3s's server-ca.crt: %w", err)
	}
	a := &Adoption{dir: dir, now: now, files: map[string][]byte{}}
	a.missing("certificate authority", a.authority(layout.authority, clientAuthority))
	a.missing("front proxy's authority", a.authority(layout.proxy, proxyAuthority))
	a.missing("keys of ServiceAccount tokens", a.tokenKeys(layout))
	if layout.clients != "" {
		a.missing("authority of clients", a.clients(layout.clients))
	}
	a.names(layout.serving)
	return a, nil
}

func (a *Adoption) missing(what string, err error) {
	if err != nil {
		a.Missing = append(a.Missing, what+": "+err.Error())
	}
}

func (a *Adoption) read(name string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(a.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is not there", name)
	}
	return data, err
}

// authority adopts an authority with its key. It has to be self-signed: clients have its certificate, and the server sends them no intermediate
// certificate.
func (a *Adoption) authority(name string, as authority) error {
	text, err := a.read(name + ".crt")
	if err != nil {
		return err
	}
	secret, err := a.read(name + ".key")
	if err != nil {
		return err
	}
	key, err := parseKey(secret)
	if err != nil {
		return fmt.Errorf("%s.key: %w", name, err)
	}
	certs, err := cert.ParseCertsPEM(text)
	if err != nil {
		return fmt.Errorf("%s.crt: %w", name, err)
	}
	own := slices.IndexFunc(certs, func(c *x509.Certificate) bool { return (&keyPair{c, key}).fits() })
	if own < 0 {
		return fmt.Errorf("%s.key is not the key of %s.crt", name, name)
	}
	pair := &keyPair{certs[own], key}
	switch c := pair.cert; {
	case !c.IsCA:
		return fmt.Errorf("%s.crt is no authority's", name)
	case c.CheckSignatureFrom(c) != nil:
		return fmt.Errorf("%s.crt is signed by another authority, %s, which would have to be shown to clients: serve with --tls-cert-file and --client-ca-file", name, c.Issuer)
	case a.now.After(c.NotAfter):
		return fmt.Errorf("%s.crt ended on %s", name, c.NotAfter.Format(time.DateOnly))
	}
	private, err := pair.keyPEM()
	if err != nil {
		return err
	}
	a.files[as.name+".key"], a.files[as.name+".crt"] = private, pair.certPEM()
	a.Adopted = append(a.Adopted, fmt.Sprintf("%s.crt and %s.key as pki/%s: %s, %s, until %s", name, name, as.name, pair.cert.Subject, kindOf(key), pair.cert.NotAfter.Format(time.DateOnly)))
	if len(certs) > 1 {
		a.Advice = append(a.Advice, fmt.Sprintf("%s.crt has further certificates (%d), which are not adopted: those whose clients are to be believed go to --client-ca-file", name, len(certs)-1))
	}
	return nil
}

// tokenKeys adopts the signing key, followed by keys that only verify.
func (a *Adoption) tokenKeys(layout pkiLayout) error {
	name := layout.signing
	signing, err := a.read(name)
	if err != nil && layout == k3sLayout {
		name = layout.tokens // releases with a single key
		signing, err = a.read(name)
	}
	if err != nil {
		return err
	}
	keys, err := parseTokenKeys(signing)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	all, further := bytes.TrimSpace(signing), 0
	verifying, err := a.read(layout.tokens)
	if err == nil && name != layout.tokens {
		parsed, err := keyutil.ParsePublicKeysPEM(verifying)
		if err != nil {
			return fmt.Errorf("%s: %w", layout.tokens, err)
		}
		for _, key := range parsed {
			if hasKey(keys, key) {
				continue
			}
			der, err := x509.MarshalPKIXPublicKey(key)
			if err != nil {
				return fmt.Errorf("%s: %w", layout.tokens, err)
			}
			keys, further = append(keys, key), further+1
			all = slices.Concat(all, []byte("\n"), bytes.TrimSpace(pem.EncodeToMemory(&pem.Block{Type: keyutil.PublicKeyBlockType, Bytes: der})))
		}
	}
	a.files[tokenKeysName+".key"] = append(all, '\n')
	signs := fmt.Sprintf("%s as pki/%s.key: %s signs tokens", name, tokenKeysName, kindOf(keys[0]))
	if more := len(keys) - 1; more > 0 {
		signs += fmt.Sprintf("; others that verify them: %d", more)
	}
	a.Adopted = append(a.Adopted, signs)
	a.Advice = append(a.Advice, "tokens of ServiceAccounts are good under the kube-apiserver's --service-account-issuer, which kubeadm and k3s have as https://kubernetes.default.svc.cluster.local")
	return nil
}

// clients adopts the certificate of an authority that signs only client certificates.
func (a *Adoption) clients(name string) error {
	text, err := a.read(name)
	if err != nil {
		return err
	}
	certs, err := cert.ParseCertsPEM(text)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	a.files[clientCAName] = text
	a.Adopted = append(a.Adopted, fmt.Sprintf("%s as pki/%s: %s, until %s", name, clientCAName, certs[0].Subject, certs[0].NotAfter.Format(time.DateOnly)))
	a.Advice = append(a.Advice, "clients are believed by pki/"+clientCAName+" unless --client-ca-file names another file")
	return nil
}

// clientCAFile returns the file with further authorities of clients; empty: there is none.
func (o *Options) clientCAFile() (string, error) {
	if o.ClientCAFile != "" {
		return o.ClientCAFile, nil
	}
	file := filepath.Join(o.DataDir, "pki", clientCAName)
	_, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return file, err
}

// names advises the names in the kube-apiserver's serving certificate.
func (a *Adoption) names(serving string) {
	text, err := a.read(serving)
	if err != nil {
		return
	}
	certs, err := cert.ParseCertsPEM(text)
	if err != nil {
		return
	}
	var known []string
	for _, name := range (names{certs[0].DNSNames, certs[0].IPAddresses}).strings() {
		if !slices.Contains(DefaultNames("", ""), name) {
			known = append(known, name)
		}
	}
	if len(known) > 0 {
		a.Advice = append(a.Advice, "clients knew the server by the names of "+serving+": --tls-san="+strings.Join(known, ","))
	}
}

func kindOf(key any) string {
	switch k := publicOf(key).(type) {
	case *rsa.PublicKey:
		return fmt.Sprintf("RSA %d", k.N.BitLen())
	case *ecdsa.PublicKey:
		return "ECDSA " + k.Curve.Params().Name
	}
	return fmt.Sprintf("%T", key)
}

// Check tells whether the keys were written already, and otherwise whether Write can write them. Errors: ErrHasKeys, when the directory has other
// keys; an error when no file can be created there.
func (a *Adoption) Check(dataDir string) (written bool, err error) {
	dir := filepath.Join(dataDir, "pki")
	there, err := os.ReadDir(dir)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return false, err
	case len(there) == 0:
		return false, files.CheckDir(dataDir)
	}
	for name, data := range a.files {
		have, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		if !bytes.Equal(have, data) {
			return false, fmt.Errorf("%w: %s is not what would be adopted; no server may have started there", ErrHasKeys, filepath.Join(dir, name))
		}
	}
	return true, nil
}

// Write writes the keys into a data directory, all or none. It changes nothing when they were written already. Errors: those of Check.
func (a *Adoption) Write(dataDir string) (err error) {
	if written, err := a.Check(dataDir); written || err != nil {
		return err
	}
	partial := filepath.Join(dataDir, ".pki."+rand.Text())
	if err := files.MakeDir(partial); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(partial))
		}
	}()
	for name, data := range a.files {
		mode := fs.FileMode(0o600)
		if strings.HasSuffix(name, ".crt") {
			mode = 0o644
		}
		if err := writeFile(filepath.Join(partial, name), data, mode); err != nil {
			return err
		}
	}
	if err := os.Rename(partial, filepath.Join(dataDir, "pki")); err != nil {
		return err
	}
	return files.Sync(dataDir)
}
