package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/serviceaccount"

	"github.com/rowlock/rowlock/sqlstore/etcd/etcdtest"
)

// kubeadmPKI writes keys and certificates as 'kubeadm init' does, and returns the certificate and the key of an administrator, and the key of
// tokens.
func kubeadmPKI(t *testing.T, dir string) (admin rest.TLSClientConfig, tokens *rsa.PrivateKey) {
	t.Helper()
	newKey := func(name string) (*rsa.PrivateKey, []byte) {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			t.Fatal(err)
		}
		text, err := keyutil.MarshalPrivateKeyToPEM(key)
		if err != nil {
			t.Fatal(err)
		}
		if name != "" {
			writeTo(t, filepath.Join(dir, name), text)
		}
		return key, text
	}
	for _, name := range []string{"ca", "front-proxy-ca"} {
		key, _ := newKey(name + ".key")
		ca, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "kube-" + name}, key)
		if err != nil {
			t.Fatal(err)
		}
		text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw})
		writeTo(t, filepath.Join(dir, name+".crt"), text)
		if name != "ca" {
			continue
		}
		issue := func(template *x509.Certificate) rest.TLSClientConfig {
			private, secret := newKey("")
			template.SerialNumber, template.NotAfter = big.NewInt(2), time.Now().Add(time.Hour)
			der, err := x509.CreateCertificate(rand.Reader, template, ca, &private.PublicKey, key)
			if err != nil {
				t.Fatal(err)
			}
			return rest.TLSClientConfig{CAData: text, CertData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), KeyData: secret}
		}
		serving := issue(&x509.Certificate{Subject: pkix.Name{CommonName: "kube-apiserver"}, DNSNames: []string{"kubernetes", "api.example.com"}})
		writeTo(t, filepath.Join(dir, "apiserver.crt"), serving.CertData)
		admin = issue(&x509.Certificate{Subject: pkix.Name{CommonName: "kubernetes-super-admin", Organization: []string{"system:masters"}},
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	}
	tokens, _ = newKey("sa.key")
	public, err := x509.MarshalPKIXPublicKey(&tokens.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	writeTo(t, filepath.Join(dir, "sa.pub"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))
	return admin, tokens
}

func writeTo(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Certificates and tokens of a cluster have the same permissions after an import with its keys, and their holders trust the server.
func TestAdoptedKeys(t *testing.T) {
	keys, snapshot, place := t.TempDir(), filepath.Join(t.TempDir(), "snapshot"), storePlace{dir: filepath.Join(t.TempDir(), "data")}
	admin, signing := kubeadmPKI(t, keys)
	account := importedMeta("default", "builder")
	if err := etcdtest.Bolt(snapshot, etcdtest.Put{Key: "/registry/namespaces/default", Value: stored(t, &corev1.Namespace{ObjectMeta: importedMeta("", "default")})},
		etcdtest.Put{Key: "/registry/serviceaccounts/default/builder", Value: stored(t, &corev1.ServiceAccount{ObjectMeta: account})}); err != nil {
		t.Fatal(err)
	}
	args := []string{"import", "--to", "sqlite://" + filepath.Join(place.dir, "rowlock.db"), "--pki", keys, "--data-dir", place.dir, snapshot}
	said := runs(t, append(args, "--dry-run")...)
	for _, want := range []string{"Keys: ca.crt and ca.key as pki/ca: CN=kube-ca, RSA 2048", "pki/front-proxy-ca", "sa.key as pki/sa.key", "--tls-san=api.example.com\n", "2 objects"} {
		if !strings.Contains(said, want) {
			t.Errorf("the dry run does not say %q:\n%s", want, said)
		}
	}
	if _, err := os.Stat(place.dir); err == nil {
		t.Fatal("a dry run made the data directory")
	}
	runs(t, args...)
	runs(t, "import", "--pki", keys, "--data-dir", place.dir) // they exist already

	p := start(t, append(place.args(), "--tls-san", "api.example.com")...)
	defer p.end()
	config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	host := config.Host
	public, private, err := serviceaccount.Claims(core.ServiceAccount{ObjectMeta: account}, nil, nil, nil, nil, nil, 3600, 0, []string{defaultIssuer}, nil)
	if err != nil {
		t.Fatal(err)
	}
	generator, err := serviceaccount.JWTTokenGenerator(defaultIssuer, signing)
	if err != nil {
		t.Fatal(err)
	}
	token, err := generator.GenerateToken(t.Context(), public, private)
	if err != nil {
		t.Fatal(err)
	}
	named := admin
	named.ServerName = "api.example.com"
	for want, config := range map[string]*rest.Config{
		"kubernetes-super-admin":                {Host: host, TLSClientConfig: named},
		"system:serviceaccount:default:builder": {Host: host, TLSClientConfig: rest.TLSClientConfig{CAData: admin.CAData}, BearerToken: token},
	} {
		client := kubernetes.NewForConfigOrDie(config)
		r, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil || r.Status.UserInfo.Username != want {
			t.Errorf("%s is %v: %v", want, r, err)
		}
	}
	proxies, err := os.ReadFile(filepath.Join(keys, "front-proxy-ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	published, err := p.client(t).CoreV1().ConfigMaps("kube-system").Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
	if err != nil || !strings.Contains(published.Data["requestheader-client-ca-file"], strings.TrimSpace(string(proxies))) {
		t.Errorf("servers behind the front proxy are told %v, %v", published, err)
	}
}

// Keys that a server has created, and that clients may trust, are not replaced, and keys that cannot be adopted are
// reported before anything is written.
func TestKeysThatAreNotAdopted(t *testing.T) {
	keys, used, fresh := t.TempDir(), filepath.Join(t.TempDir(), "used"), filepath.Join(t.TempDir(), "fresh")
	kubeadmPKI(t, keys)
	start(t, "--data-dir", used).end()
	before, err := os.ReadFile(filepath.Join(used, "pki", "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	refused := func(want string, args ...string) {
		t.Helper()
		if code, _, stderr := command(t, append([]string{"import"}, args...)...); code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit code %d, %s", args, code, stderr)
		}
	}
	refused("there are keys already", "--pki", keys, "--data-dir", used)
	if after, err := os.ReadFile(filepath.Join(used, "pki", "ca.crt")); err != nil || string(after) != string(before) {
		t.Errorf("they were replaced: %v", err)
	}
	refused("is needed, or --pki")
	refused("neither kubeadm's ca.crt nor k3s's server-ca.crt", "--pki", fresh, "--data-dir", fresh)
	if err := os.Remove(filepath.Join(keys, "sa.key")); err != nil {
		t.Fatal(err)
	}
	refused("--incomplete", "--pki", keys, "--data-dir", fresh)
	if _, err := os.Stat(fresh); err == nil {
		t.Error("the data directory was made")
	}
	if said := runs(t, "import", "--pki", keys, "--data-dir", fresh, "--incomplete"); !strings.Contains(said, "Not adopted: keys of ServiceAccount tokens: sa.key is not there") {
		t.Error(said)
	}
	start(t, "--data-dir", fresh).end()
}
