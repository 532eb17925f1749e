package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"path/filepath"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// k3sPKI writes keys and certificates as k3s does, with an authority for clients only, and returns the certificate and the key of an administrator.
func k3sPKI(t *testing.T, dir string) (admin rest.TLSClientConfig) {
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
		writeTo(t, filepath.Join(dir, name), text)
		return key, text
	}
	certificate := func(der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}) }
	for _, name := range []string{"server-ca", "request-header-ca", "client-ca"} {
		key, _ := newKey(name + ".key")
		ca, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "k3s-" + name}, key)
		if err != nil {
			t.Fatal(err)
		}
		writeTo(t, filepath.Join(dir, name+".crt"), certificate(ca.Raw))
		switch name {
		case "server-ca":
			admin.CAData = certificate(ca.Raw)
		case "client-ca":
			private, secret := newKey("client-admin.key")
			der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour),
				Subject: pkix.Name{CommonName: "system:admin", Organization: []string{"system:masters"}}, KeyUsage: x509.KeyUsageDigitalSignature,
				ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, ca, &private.PublicKey, key)
			if err != nil {
				t.Fatal(err)
			}
			admin.CertData, admin.KeyData = certificate(der), secret
		}
	}
	newKey("service.key")
	newKey("service.current.key")
	return admin
}

// The kubeconfig of k3s, whose clients have certificates of an authority of their own, is good after its keys were adopted. With --client-ca-file, only
// the authorities of that file are added.
func TestAdoptedKeysOfK3s(t *testing.T) {
	keys, other, dir := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "data")
	admin := k3sPKI(t, keys)
	k3sPKI(t, other)
	runs(t, "import", "--pki", keys, "--data-dir", dir)
	whoami := func(args ...string) string {
		t.Helper()
		p := start(t, append([]string{"--data-dir", dir}, args...)...)
		defer p.end()
		config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		client := kubernetes.NewForConfigOrDie(&rest.Config{Host: config.Host, TLSClientConfig: admin})
		r, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil {
			return err.Error()
		}
		return r.Status.UserInfo.Username
	}
	if is := whoami(); is != "system:admin" {
		t.Errorf("the administrator of k3s is %s", is)
	}
	if is := whoami("--client-ca-file", filepath.Join(other, "client-ca.crt")); is != "Unauthorized" {
		t.Errorf("with another --client-ca-file, the administrator of k3s is %s", is)
	}
}
