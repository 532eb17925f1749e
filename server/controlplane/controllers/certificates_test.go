package controllers_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/apis/certificates"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/controlplane/controllers"
)

const legacyUnknown = "kubernetes.io/legacy-unknown"

// newAuthority writes a certificate authority into files.
func newAuthority(t *testing.T) (files controllers.Authority, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tests"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(10 * 365 * 24 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files = controllers.Authority{Certificate: filepath.Join(dir, "ca.crt"), Key: filepath.Join(dir, "ca.key")}
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	if err := os.WriteFile(files.Certificate, public, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files.Key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}), 0o600); err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(public)
	return files, pool
}

// request returns a CertificateSigningRequest for a subject, with a key of its own.
func request(t *testing.T, name, signer string, subject pkix.Name, names []string, usages ...certificatesv1.KeyUsage) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject, DNSNames: names}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: certificatesv1.CertificateSigningRequestSpec{
		SignerName: signer, Usages: usages, Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})}}
}

func requestKey(name string) resources.Key {
	return resources.Key{Resource: "certificatesigningrequests.certificates.k8s.io", Name: name}
}

// as returns a client of the server for a user.
func (c *cluster) as(name string, groups ...string) kubernetes.Interface {
	c.Helper()
	client, err := c.server.Client(&user.DefaultInfo{Name: name, Groups: append(groups, user.AllAuthenticated)}, "test")
	if err != nil {
		c.Fatal(err)
	}
	return client
}

// signs starts the signing controller, and the further ones that are named.
func (c *cluster) signs(further ...string) *x509.CertPool {
	c.Helper()
	files, pool := newAuthority(c.T)
	c.change = append(c.change, func(o *controllers.Config) {
		o.Enabled = append(further, controllers.RequestSigning)
		o.Signing = &controllers.Signing{Duration: 24 * time.Hour, Authorities: map[string]controllers.Authority{}}
		for _, signer := range []string{certificatesv1.KubeletServingSignerName, certificatesv1.KubeAPIServerClientKubeletSignerName,
			certificatesv1.KubeAPIServerClientSignerName, legacyUnknown} {
			o.Signing.Authorities[signer] = files
		}
	})
	c.start()
	return pool
}

// signed waits for the certificate of a request.
func (c *cluster) signed(name string) *x509.Certificate {
	c.Helper()
	var is *certificatesv1.CertificateSigningRequest
	c.until("the certificate", requestKey(name), func(o *resources.Object) bool {
		is = decode[certificatesv1.CertificateSigningRequest](c, o)
		return len(is.Status.Certificate) > 0
	})
	block, _ := pem.Decode(is.Status.Certificate)
	if block == nil {
		c.Fatal("the certificate is no PEM")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		c.Fatal(err)
	}
	return certificate
}

// approve sends a request and approves it.
func (c *cluster) approve(from kubernetes.Interface, r *certificatesv1.CertificateSigningRequest) {
	c.Helper()
	stored, err := from.CertificatesV1().CertificateSigningRequests().Create(c.ctx, r, metav1.CreateOptions{})
	if err != nil {
		c.Fatal(err)
	}
	stored.Status.Conditions = append(stored.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Tested", Message: "by a test"})
	if _, err := c.as("admin", user.SystemPrivilegedGroup).CertificatesV1().CertificateSigningRequests().UpdateApproval(c.ctx, r.Name, stored, metav1.UpdateOptions{}); err != nil {
		c.Fatal(err)
	}
}

// An approved request is signed by the authority of its signer, for the requested duration, up to the allowed one.
func TestSigning(t *testing.T) {
	c := newCluster(t)
	c.serve()
	pool := c.signs()
	client := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
	serving := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
	node := pkix.Name{CommonName: "system:node:one", Organization: []string{user.NodesGroup}}
	for _, tt := range []struct {
		signer  string
		subject pkix.Name
		names   []string
		usages  []certificatesv1.KeyUsage
		asked   time.Duration // 0: none
		want    time.Duration
		means   x509.ExtKeyUsage
	}{
		{certificatesv1.KubeAPIServerClientSignerName, pkix.Name{CommonName: "jane"}, nil, client, time.Hour, time.Hour, x509.ExtKeyUsageClientAuth},
		{certificatesv1.KubeAPIServerClientKubeletSignerName, node, nil, client, 0, 24 * time.Hour, x509.ExtKeyUsageClientAuth},
		{certificatesv1.KubeletServingSignerName, node, []string{"one.example.com"}, serving, 48 * time.Hour, 24 * time.Hour, x509.ExtKeyUsageServerAuth},
	} {
		name := tt.signer[len("kubernetes.io/"):]
		r := request(t, name, tt.signer, tt.subject, tt.names, tt.usages...)
		if tt.asked > 0 {
			r.Spec.ExpirationSeconds = ptr(int32(tt.asked / time.Second))
		}
		c.approve(c.as(tt.subject.CommonName, tt.subject.Organization...), r)
		got := c.signed(name)
		if _, err := got.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{tt.means}}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got.Subject.CommonName != tt.subject.CommonName || fmt.Sprint(got.Subject.Organization) != fmt.Sprint(tt.subject.Organization) || fmt.Sprint(got.DNSNames) != fmt.Sprint(tt.names) {
			t.Errorf("%s: the certificate is for %v, %v", name, got.Subject, got.DNSNames)
		}
		// Upstream backdates certificates that are valid for more than eight hours, and leaves their end as it is.
		end := time.Now().Add(tt.want)
		if got.NotAfter.After(end) || got.NotAfter.Before(end.Add(-patience-10*time.Minute)) {
			t.Errorf("%s: valid until %v, want %v", name, got.NotAfter, end)
		}
	}
	// A request that the signer does not accept fails, with the reason.
	c.approve(c.as("jane"), request(t, "wrong", certificatesv1.KubeAPIServerClientSignerName, pkix.Name{CommonName: "jane"}, nil, serving...))
	c.until("the failure", requestKey("wrong"), func(o *resources.Object) bool {
		conditions := decode[certificatesv1.CertificateSigningRequest](t, o).Status.Conditions
		return len(conditions) == 2 && conditions[1].Type == certificatesv1.CertificateFailed && conditions[1].Reason == "SignerValidationFailure"
	})
}

// The client certificate of a kubelet is approved when the kubelet itself requests it, and not otherwise.
func TestApproving(t *testing.T) {
	c := newCluster(t)
	c.serve()
	usages := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
	node := pkix.Name{CommonName: "system:node:one", Organization: []string{user.NodesGroup}}
	for name, r := range map[string]*certificatesv1.CertificateSigningRequest{
		"jane":  request(t, "jane", certificatesv1.KubeAPIServerClientSignerName, pkix.Name{CommonName: "jane"}, nil, usages...),
		"other": request(t, "other", certificatesv1.KubeAPIServerClientKubeletSignerName, pkix.Name{CommonName: "jane"}, nil, usages...),
	} {
		if _, err := c.as(name).CertificatesV1().CertificateSigningRequests().Create(c.ctx, r, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	pool := c.signs(controllers.RequestApproving)
	r := request(t, "self", certificatesv1.KubeAPIServerClientKubeletSignerName, node, nil, usages...)
	if _, err := c.as(node.CommonName, user.NodesGroup).CertificatesV1().CertificateSigningRequests().Create(c.ctx, r, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.signed("self").Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
	approved := decode[certificatesv1.CertificateSigningRequest](t, c.get(requestKey("self"))).Status.Conditions[0]
	if approved.Reason != "AutoApproved" || approved.Message != "Auto approving self kubelet client certificate after SubjectAccessReview." {
		t.Errorf("approved with %+v", approved)
	}
	for _, name := range []string{"jane", "other"} {
		if is := decode[certificatesv1.CertificateSigningRequest](t, c.get(requestKey(name))).Status; len(is.Conditions) > 0 || len(is.Certificate) > 0 {
			t.Errorf("%s: %+v", name, is)
		}
	}
}

// Old requests of both kinds are removed.
func TestRequestsAreRemoved(t *testing.T) {
	c := newCluster(t)
	c.serve()
	young := request(t, "young", "example.com/mine", pkix.Name{CommonName: "jane"}, nil, certificatesv1.UsageClientAuth)
	if _, err := c.as("jane").CertificatesV1().CertificateSigningRequests().Create(c.ctx, young, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	old := c.put("certificatesigningrequests.certificates.k8s.io", &certificates.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "old",
		CreationTimestamp: metav1.NewTime(time.Now().Add(-25 * time.Hour))}, Spec: certificates.CertificateSigningRequestSpec{SignerName: "example.com/mine"}})
	pod := c.put("podcertificaterequests.certificates.k8s.io", &certificates.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{Name: "old", Namespace: "ns",
		CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour)), UID: "one"}})
	c.signs(controllers.RequestCleaner, controllers.PodRequestCleaner)
	c.gone(old, pod)
	if c.get(requestKey("young")) == nil {
		t.Error("a request of now was removed")
	}
}
