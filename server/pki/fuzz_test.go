package pki

import (
	"testing"

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
