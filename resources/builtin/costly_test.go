package builtin_test

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
)

// TestManyAudiencesAreRefused reviews a token for audiences that upstream compares each with each.
func TestManyAudiencesAreRefused(t *testing.T) {
	c := newCluster(t, builtin.Parts{})
	review := func(n int) string {
		return `{"spec":{"token":"t","audiences":["a"` + strings.Repeat(`,"a"`, n-1) + `]}}`
	}
	s := c.served("authentication.k8s.io", "tokenreviews")
	if _, err := c.ask(s, review(1000)); err != nil {
		t.Error(err)
	}
	_, err := c.ask(s, review(1001))
	c.expect(err, refusal{413, "Request entity too large: limit of audiences is 1000"})
}

// signingRequest is a request for a certificate of an RSA key with a number of bits. Its signature is none.
func signingRequest(t *testing.T, bits uint) []byte {
	t.Helper()
	type publicKey struct {
		N *big.Int
		E int
	}
	modulus := new(big.Int).Lsh(big.NewInt(1), bits-1)
	key, err := asn1.Marshal(publicKey{modulus.SetBit(modulus, 0, 1), 65537})
	if err != nil {
		t.Fatal(err)
	}
	rsa := pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}, Parameters: asn1.NullRawValue}
	type subjectKey struct {
		Algorithm pkix.AlgorithmIdentifier
		Key       asn1.BitString
	}
	type content struct {
		Version    int
		Subject    pkix.RDNSequence
		Key        subjectKey
		Attributes []asn1.RawValue `asn1:"tag:0"`
	}
	der, err := asn1.Marshal(struct {
		Content   content
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}{
		content{0, pkix.Name{CommonName: "a"}.ToRDNSequence(), subjectKey{rsa, asn1.BitString{Bytes: key, BitLength: 8 * len(key)}}, nil},
		pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 11}, Parameters: asn1.NullRawValue},
		asn1.BitString{Bytes: make([]byte, bits/8), BitLength: int(bits)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// TestHugeKeysAreRefused sends a key with which verifying the signature of the request takes minutes.
func TestHugeKeysAreRefused(t *testing.T) {
	c := newCluster(t, builtin.Parts{})
	s := c.served("certificates.k8s.io", "certificatesigningrequests")
	create := func(bits uint) error {
		pem, err := json.Marshal(signingRequest(t, bits))
		if err != nil {
			t.Fatal(err)
		}
		obj := decode(t, s.GroupVersionKind, `{"metadata":{"name":"a"},"spec":{"signerName":"example.com/a","usages":["digital signature"],"request":`+string(pem)+`}}`)
		_, err = c.pipeline.Create(c.request(s, "", ""), &resources.CreateRequest{Type: s.Type, Object: obj})
		return err
	}
	c.expect(create(1<<20), refusal{422, `CertificateSigningRequest.certificates.k8s.io "a" is invalid: spec.request: Invalid value: the RSA key must not have more than 16384 bits`})
	if err := create(2048); err == nil || !strings.Contains(err.Error(), "verification error") {
		t.Errorf("a key of usual size: %v", err)
	}
}
