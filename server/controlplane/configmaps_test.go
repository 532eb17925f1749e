package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"
)

// A bundle has one certificate of each authority, however often it was renewed. Servers that use different ones agree on it.
func TestCombined(t *testing.T) {
	now := time.Now()
	serial := int64(0)
	issue := func(name string, key *ecdsa.PrivateKey, from, to time.Time) *x509.Certificate {
		t.Helper()
		serial++
		template := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, NotBefore: from, NotAfter: to, IsCA: true, BasicConstraintsValid: true}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		c, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	var keys [2]*ecdsa.PrivateKey
	for i := range keys {
		var err error
		if keys[i], err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	const day = 24 * time.Hour
	first, renewed := issue("a", keys[0], now.Add(-day), now.Add(day)), issue("a", keys[0], now.Add(-day), now.Add(2*day))
	earlier, twin := issue("a", keys[0], now.Add(-2*day), now.Add(2*day)), issue("a", keys[0], now.Add(-2*day), now.Add(2*day))
	stranger, alias, gone := issue("a", keys[1], now.Add(-day), now.Add(day)), issue("b", keys[0], now.Add(-day), now.Add(day)), issue("c", keys[0], now.Add(-2*day), now.Add(-day))
	last := twin
	if supersedes(earlier, twin) {
		last = earlier
	}
	for _, c := range []struct{ add, want []*x509.Certificate }{
		{[]*x509.Certificate{first, gone, first}, []*x509.Certificate{first}},
		{[]*x509.Certificate{first, stranger, alias, renewed}, []*x509.Certificate{renewed, stranger, alias}},
		{[]*x509.Certificate{renewed, stranger, first}, []*x509.Certificate{renewed, stranger}},
		{[]*x509.Certificate{renewed, earlier}, []*x509.Certificate{earlier}},
		{[]*x509.Certificate{earlier, twin, renewed}, []*x509.Certificate{last}},
		{[]*x509.Certificate{twin, earlier}, []*x509.Certificate{last}},
	} {
		bundle := "none"
		for _, one := range c.add {
			bundle = combined(bundle, []*x509.Certificate{one}, now)
		}
		got, err := cert.ParseCertsPEM([]byte(bundle))
		if err != nil || !slices.EqualFunc(got, c.want, (*x509.Certificate).Equal) {
			t.Errorf("got %d certificates, want %d: %v\n%s", len(got), len(c.want), err, bundle)
		}
	}
}
