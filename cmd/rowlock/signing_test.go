package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
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

	ctx, cancel := context.WithTimeout(t.Context(), controllerWait)
	defer cancel()
	maps, err := client.CoreV1().ConfigMaps("kube-public").Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=kube-root-ca.crt"})
	if err != nil {
		t.Fatal(err)
	}
	defer maps.Stop()
	e := <-maps.ResultChan() // the watch starts with the existing object, and ends with ctx
	if m, ok := e.Object.(*corev1.ConfigMap); !ok || m.Data["ca.crt"] != string(admin.CAData) {
		t.Errorf("the authority is published as %v", e.Object)
	}
}

// signed returns a certificate for jane that the server has signed, and its key.
func signed(t *testing.T, client kubernetes.Interface) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
	key := approved(t, client, client, "jane", certificatesv1.KubeAPIServerClientSignerName, certificatesv1.UsageClientAuth,
		x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane", Organization: []string{"team"}}})
	return certificateOf(t, client, "jane"), key
}

// approved creates and approves a CertificateSigningRequest, and returns its key.
func approved(t *testing.T, as, admin kubernetes.Interface, name, signer string, usage certificatesv1.KeyUsage, asked x509.CertificateRequest) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &asked, key)
	if err != nil {
		t.Fatal(err)
	}
	request, err := as.CertificatesV1().CertificateSigningRequests().Create(t.Context(), &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: signer, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, usage},
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	request.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Tested"}}
	if _, err := admin.CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), name, request, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	return key
}

// controllerWait bounds how long a test waits for a controller. It only has to be less than the time for all tests.
const controllerWait = 5 * time.Minute

// certificateOf waits until a request is signed.
func certificateOf(t *testing.T, client kubernetes.Interface, name string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), controllerWait)
	defer cancel()
	events, err := client.CertificatesV1().CertificateSigningRequests().Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	for {
		e, ok := <-events.ResultChan()
		if !ok || e.Type == watch.Error {
			t.Fatalf("the watch ended with %v", e)
		}
		if certificate := e.Object.(*certificatesv1.CertificateSigningRequest).Status.Certificate; len(certificate) > 0 {
			return certificate
		}
	}
}

// authorityFiles are the files of an authority for --cluster-signing-*.
type authorityFiles struct{ certificate, key string }

// renew replaces the files by those of a new authority, and returns its certificate.
func (f authorityFiles) renew(t *testing.T) *x509.Certificate {
	t.Helper()
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
	if err := errors.Join(cert.WriteCert(f.certificate, pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: authority.Raw})), keyutil.WriteKey(f.key, private)); err != nil {
		t.Fatal(err)
	}
	return authority
}

// signer is a signer of kubernetes.io with a request that it signs.
type signer struct {
	flag, name string
	usage      certificatesv1.KeyUsage
	asked      x509.CertificateRequest
}

var ofNode = pkix.Name{CommonName: "system:node:a", Organization: []string{"system:nodes"}}

var signers = []signer{
	{"kubelet-serving-", certificatesv1.KubeletServingSignerName, certificatesv1.UsageServerAuth, x509.CertificateRequest{Subject: ofNode, DNSNames: []string{"a"}}},
	{"kubelet-client-", certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.UsageClientAuth, x509.CertificateRequest{Subject: ofNode}},
	{"kube-apiserver-client-", certificatesv1.KubeAPIServerClientSignerName, certificatesv1.UsageClientAuth, x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane"}}},
}

// asNode returns a client that may create CertificateSigningRequests as the kubelet of node a.
func (p *process) asNode(t *testing.T) kubernetes.Interface {
	t.Helper()
	if _, err := p.client(t).RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: ofNode.CommonName}},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node-bootstrapper"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.Impersonate = rest.ImpersonationConfig{UserName: ofNode.CommonName, Groups: ofNode.Organization}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// The authority of --cluster-signing-* signs, for as long as --cluster-signing-duration says: for all signers, or for one of them, and then the others
// sign nothing. Its files are read again when they change.
func TestSigningAuthority(t *testing.T) {
	dir := t.TempDir()
	files := authorityFiles{filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")}
	for _, given := range append([]signer{{}}, signers...) {
		t.Run("for "+given.flag, func(t *testing.T) {
			authority := files.renew(t)
			p := start(t, "--data-dir", t.TempDir(), "--cluster-signing-"+given.flag+"cert-file", files.certificate, "--cluster-signing-"+given.flag+"key-file", files.key, "--cluster-signing-duration", "2h")
			admin, node := p.client(t), p.asNode(t)
			for _, late := range []bool{false, true} { // requests that nobody signs come first
				for _, s := range signers {
					if given.signs(s) == late {
						approved(t, node, admin, s.flag+"0", s.name, s.usage, s.asked)
					}
				}
			}
			for _, s := range signers {
				if !given.signs(s) {
					continue
				}
				if c := parsed(t, certificateOf(t, admin, s.flag+"0")); c.CheckSignatureFrom(authority) != nil || c.NotAfter.After(time.Now().Add(2*time.Hour)) {
					t.Errorf("%s: signed by %s until %s", s.name, c.Issuer, c.NotAfter)
				}
			}
			authority = files.renew(t)
			for _, s := range signers {
				if !given.signs(s) {
					continue
				}
				n := 0
				if err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, controllerWait, true, func(context.Context) (bool, error) {
					n++
					name := fmt.Sprint(s.flag, n)
					approved(t, node, admin, name, s.name, s.usage, s.asked)
					return parsed(t, certificateOf(t, admin, name)).CheckSignatureFrom(authority) == nil, nil
				}); err != nil {
					t.Errorf("%s: the changed authority has signed none of %d requests: %v", s.name, n, err)
				}
			}
			list, err := admin.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range list.Items {
				if len(r.Status.Certificate) > 0 != given.signs(signer{name: r.Spec.SignerName}) {
					t.Errorf("%s is signed for %s: %t", r.Name, r.Spec.SignerName, len(r.Status.Certificate) > 0)
				}
			}
			if code := p.end(); code != 0 {
				t.Errorf("ended with %d", code)
			}
		})
	}
}

// signs tells whether a signer has the authority of a flag; the flag without a name is for all of them.
func (given signer) signs(s signer) bool { return given.name == "" || s.name == given.name }

func parsed(t *testing.T, certificate []byte) *x509.Certificate {
	t.Helper()
	all, err := cert.ParseCertsPEM(certificate)
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

// A signer has one authority: its own, or the one for all.
func TestSigningFlags(t *testing.T) {
	dir := t.TempDir()
	files := authorityFiles{filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")}
	files.renew(t)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--cluster-signing-cert-file", "a"}, "--cluster-signing-cert-file needs --cluster-signing-key-file"},
		{[]string{"--cluster-signing-kubelet-client-key-file", "a"}, "--cluster-signing-kubelet-client-key-file needs --cluster-signing-kubelet-client-cert-file"},
		{[]string{"--cluster-signing-cert-file", "a", "--cluster-signing-key-file", "b"}, "--cluster-signing-cert-file: open a: no such file or directory"},
		{[]string{"--cluster-signing-cert-file", files.certificate, "--cluster-signing-key-file", files.key, "--cluster-signing-legacy-unknown-cert-file", files.certificate,
			"--cluster-signing-legacy-unknown-key-file", files.key}, "cannot specify --cluster-signing-{cert,key}-file and other --cluster-signing-*-file flags at the same time"},
		{[]string{"--cluster-signing-legacy-unknown-cert-file", files.certificate, "--cluster-signing-legacy-unknown-key-file", files.key}, ""},
		{[]string{"--root-ca-file", "absent"}, "--root-ca-file: open absent: no such file or directory"},
	} {
		o := &controllerOptions{}
		flags := flagSet(o.addFlags)
		if err := flags.Parse(tt.args); err != nil {
			t.Fatal(err)
		}
		if err := o.complete(false); (err == nil) != (tt.want == "") || err != nil && err.Error() != tt.want {
			t.Errorf("%q: %v, want %s", tt.args, err, tt.want)
		}
	}
}
