package pki

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"
)

// FuzzKeyFiles reads any content of key and certificate files and rows. Content that is accepted as token keys is written back as the
// same keys.
func FuzzKeyFiles(f *testing.F) {
	pair, err := newKey()
	if err != nil {
		f.Fatal(err)
	}
	private, err := (&keyPair{key: pair}).keyPEM()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(private)
	f.Add(append(private, private...))
	f.Add([]byte("-----BEGIN PUBLIC KEY-----\nMFkw\n-----END PUBLIC KEY-----\n"))
	f.Add([]byte("-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = parseKey(data)
		_, _ = cert.ParseCertsPEM(data)
		_, _ = parseKeyPair([][]byte{data, data})
		keys, err := parseTokenKeys(data)
		if err != nil {
			return
		}
		blocks, err := keyBlocks(data)
		if err != nil {
			t.Fatalf("keys that are used cannot be listed: %v", err)
		}
		var text []byte
		for _, b := range blocks {
			text = append(text, b.text...)
		}
		again, err := parseTokenKeys(text)
		if err != nil || len(again) < 1 || keyID(publicOf(again[0])) != keyID(publicOf(keys[0])) || blocks[0].ID != keyID(publicOf(keys[0])) {
			t.Errorf("%d keys are read as %d, %v", len(keys), len(again), err)
		}
	})
}

// FuzzServerNames asks for certificates by any name, among certificates with any names: what is found has the name, or a wildcard for it.
func FuzzServerNames(f *testing.F) {
	for _, name := range []string{"", ".", "a.example.com", "A.Example.com.", "*.example.com", "*", "127.0.0.1", "::1", "a..b", "\xff"} {
		f.Add(name, "*.example.com", "a.example.com", "127.0.0.1")
		f.Add(name, name, "*", "")
	}
	f.Fuzz(func(t *testing.T, server, given, common, dns string) {
		pair := func(names []string, common, dns string) named {
			c := &tls.Certificate{Leaf: &x509.Certificate{Subject: pkix.Name{CommonName: common}, DNSNames: []string{dns}}}
			n := named{names: names, pair: &reloading[*tls.Certificate]{reloadOptions: reloadOptions{now: func() time.Time { return time.Unix(0, 0) }}}}
			n.pair.current.Store(&loaded[*tls.Certificate]{value: c})
			return n
		}
		p := &PKI{named: []named{pair([]string{given}, "", ""), pair(nil, common, dns)}}
		found := p.namedFor(server)
		if found == nil {
			return
		}
		for _, name := range append([]string{given}, namesOf(found)...) {
			_, domain, _ := strings.Cut(strings.TrimSuffix(server, "."), ".")
			if strings.EqualFold(name, strings.TrimSuffix(server, ".")) || strings.EqualFold(name, "*."+domain) {
				return
			}
		}
		t.Errorf("%q gets the certificate of %q, %q, %q", server, given, common, dns)
	})
}
