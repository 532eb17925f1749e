package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
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
	ahead := issue("a", keys[0], now.Add(day), now.Add(10*day)) // by a clock that was ahead
	last := twin
	if supersedes(earlier, twin, now) {
		last = earlier
	}
	for _, c := range []struct{ add, want []*x509.Certificate }{
		{[]*x509.Certificate{first, gone, first}, []*x509.Certificate{first}},
		{[]*x509.Certificate{first, stranger, alias, renewed}, []*x509.Certificate{renewed, stranger, alias}},
		{[]*x509.Certificate{renewed, stranger, first}, []*x509.Certificate{renewed, stranger}},
		{[]*x509.Certificate{renewed, earlier}, []*x509.Certificate{earlier}},
		{[]*x509.Certificate{earlier, twin, renewed}, []*x509.Certificate{last}},
		{[]*x509.Certificate{twin, earlier}, []*x509.Certificate{last}},
		{[]*x509.Certificate{first, ahead}, []*x509.Certificate{first}},
		{[]*x509.Certificate{ahead, stranger, first}, []*x509.Certificate{first, stranger}},
	} {
		bundle := "none"
		for _, one := range c.add {
			bundle = combined(bundle, []*x509.Certificate{one}, now)
		}
		checkBundle(t, bundle, c.want)
	}
	both := []*x509.Certificate{first, renewed}
	for _, c := range []struct{ bundle, own, want []*x509.Certificate }{
		{both, []*x509.Certificate{renewed}, both}, // as an older build has put it back
		{both, []*x509.Certificate{last}, []*x509.Certificate{last}},
		{nil, both, both}, // a file of authorities has both
		{[]*x509.Certificate{renewed}, both, []*x509.Certificate{renewed, first}},
		{[]*x509.Certificate{last}, both, []*x509.Certificate{last}},
	} {
		checkBundle(t, combined(encoded(c.bundle), c.own, now), c.want)
	}
}

func encoded(all []*x509.Certificate) string {
	var text strings.Builder
	for _, c := range all {
		text.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
	}
	return text.String()
}

func checkBundle(t *testing.T, bundle string, want []*x509.Certificate) {
	t.Helper()
	got, err := cert.ParseCertsPEM([]byte(bundle))
	if err != nil || !slices.EqualFunc(got, want, (*x509.Certificate).Equal) {
		t.Errorf("got %d certificates, want %d: %v\n%s", len(got), len(want), err, bundle)
	}
}
