package handlers_test

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"testing"
	"time"
)

// FuzzCertificates writes any PEM as the request of a CertificateSigningRequest and as a ClusterTrustBundle, and any DER as the request of a
// PodCertificateRequest: what is accepted is what Go's parser accepts, and the rest is invalid.
func FuzzCertificates(f *testing.F) {
	a := newAPI(f)
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)) // so that seeds are the same each time
	request, err := x509.CreateCertificateRequest(nil, &x509.CertificateRequest{DNSNames: []string{"a"}}, key)
	if err != nil {
		f.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Unix(1<<33, 0), IsCA: true, BasicConstraintsValid: true}
	authority, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	if err != nil {
		f.Fatal(err)
	}
	block := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	for _, seed := range [][]byte{nil, request, block("CERTIFICATE REQUEST", request), block("CERTIFICATE", authority), append(block("CERTIFICATE", authority), "text\n"...),
		block("CERTIFICATE", nil), block("CERTIFICATE REQUEST", []byte("0\x00")), block("CERTIFICATE", authority[:len(authority)-1]), []byte("-----BEGIN CERTIFICATE-----\nMAA=\n")} {
		f.Add(seed)
	}
	create := func(t *testing.T, resource, body string) (accepted bool) {
		t.Helper()
		w := a.answer(t, "POST", "/apis/certificates.k8s.io/v1/"+resource+"?dryRun=All", nil, body)
		if w.Code != http.StatusCreated && w.Code != http.StatusUnprocessableEntity && w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", resource, w.Code, w.Body)
		}
		return w.Code == http.StatusCreated
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		decoded, _ := pem.Decode(text)
		encoded := base64.StdEncoding.EncodeToString(text)
		if create(t, "certificatesigningrequests", fmt.Sprintf(`{"metadata":{"name":"a"},"spec":{"request":%q,"signerName":"example.com/a","usages":["client auth"]}}`, encoded)) {
			if decoded == nil {
				t.Fatalf("accepted: %q", text)
			}
			if _, err := x509.ParseCertificateRequest(decoded.Bytes); err != nil {
				t.Errorf("accepted: %q, %v", text, err)
			}
		}
		if create(t, "clustertrustbundles", fmt.Sprintf(`{"metadata":{"name":"a"},"spec":{"trustBundle":%q}}`, text)) {
			if decoded == nil {
				t.Fatalf("accepted: %q", text)
			}
			if _, err := x509.ParseCertificate(decoded.Bytes); err != nil {
				t.Errorf("accepted: %q, %v", text, err)
			}
		}
		if create(t, "namespaces/test/podcertificaterequests", fmt.Sprintf(`{"metadata":{"name":"a"},"spec":{"signerName":"example.com/a","podName":"p","podUID":"1","serviceAccountName":"s",
			"serviceAccountUID":"2","nodeName":"n","nodeUID":"3","maxExpirationSeconds":3600,"stubPKCS10Request":%q}}`, encoded)) {
			if _, err := x509.ParseCertificateRequest(text); err != nil {
				t.Errorf("accepted: %q, %v", text, err)
			}
		}
	})
}
