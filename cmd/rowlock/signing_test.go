package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"path/filepath"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// Without configuration, the certificate of an approved CertificateSigningRequest authenticates its user, and every
// namespace has the authority of this server.
func TestSignedCertificates(t *testing.T) {
	p := start(t, "--data-dir", t.TempDir())
	client := p.client(t)
	admin, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	jane := rest.AnonymousClientConfig(admin)
	certificate, key := signed(t, client)
	jane.CertData = certificate
	if jane.KeyData, err = keyutil.MarshalPrivateKeyToPEM(key); err != nil {
		t.Fatal(err)
	}
	known, err := kubernetes.NewForConfig(jane)
	if err != nil {
		t.Fatal(err)
	}
	if who := whoami(t, known); who != "jane" {
		t.Errorf("is %s", who)
	}

	maps, err := client.CoreV1().ConfigMaps("kube-public").Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=kube-root-ca.crt"})
	if err != nil {
		t.Fatal(err)
	}
	defer maps.Stop()
	e := <-maps.ResultChan() // the watch starts with the existing object
	if m, ok := e.Object.(*corev1.ConfigMap); !ok || m.Data["ca.crt"] != string(admin.CAData) {
		t.Errorf("the authority is published as %v", e.Object)
	}
}

// signed returns a certificate for jane that the server has signed, and its key.
func signed(t *testing.T, client kubernetes.Interface) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane", Organization: []string{"team"}}}, key)
	if err != nil {
		t.Fatal(err)
	}
	requests := client.CertificatesV1().CertificateSigningRequests()
	request, err := requests.Create(t.Context(), &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "jane"},
		Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth}, Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	events, err := requests.Watch(t.Context(), metav1.SingleObject(request.ObjectMeta))
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	request.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Tested"}}
	if _, err := requests.UpdateApproval(t.Context(), "jane", request, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for {
		e, ok := <-events.ResultChan()
		if !ok || e.Type == watch.Error {
			t.Fatalf("the watch ended with %v", e)
		}
		if certificate := e.Object.(*certificatesv1.CertificateSigningRequest).Status.Certificate; len(certificate) > 0 {
			return certificate, key
		}
	}
}

// The authority of --cluster-signing-* signs, for as long as --cluster-signing-duration says: for all signers, or for one of them.
func TestSigningAuthority(t *testing.T) {
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "another"}, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")
	if err := errors.Join(cert.WriteCert(certFile, pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: authority.Raw})), keyutil.WriteKey(keyFile, private)); err != nil {
		t.Fatal(err)
	}
	for _, signer := range []string{"", "kube-apiserver-client-"} {
		p := start(t, "--data-dir", t.TempDir(), "--cluster-signing-"+signer+"cert-file", certFile, "--cluster-signing-"+signer+"key-file", keyFile, "--cluster-signing-duration", "2h")
		certificate, _ := signed(t, p.client(t))
		all, err := cert.ParseCertsPEM(certificate)
		if err != nil {
			t.Fatal(err)
		}
		if err := all[0].CheckSignatureFrom(authority); err != nil || all[0].NotAfter.After(time.Now().Add(2*time.Hour)) {
			t.Errorf("%q: signed by %s until %s: %v", signer, all[0].Issuer, all[0].NotAfter, err)
		}
		if code := p.end(); code != 0 {
			t.Errorf("ended with %d", code)
		}
	}
}

// A signer has one authority: its own, or the one for all.
func TestSigningFlags(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--cluster-signing-cert-file", "a"}, "--cluster-signing-cert-file needs --cluster-signing-key-file"},
		{[]string{"--cluster-signing-kubelet-client-key-file", "a"}, "--cluster-signing-kubelet-client-key-file needs --cluster-signing-kubelet-client-cert-file"},
		{[]string{"--cluster-signing-cert-file", "a", "--cluster-signing-key-file", "b"}, "--cluster-signing-cert-file: open a: no such file or directory"},
		{[]string{"--root-ca-file", "absent"}, "--root-ca-file: open absent: no such file or directory"},
	} {
		o := &controllerOptions{}
		flags := flagSet(o.addFlags)
		if err := flags.Parse(tt.args); err != nil {
			t.Fatal(err)
		}
		if err := o.complete(false); err == nil || err.Error() != tt.want {
			t.Errorf("%q: %v, want %s", tt.args, err, tt.want)
		}
	}
}
