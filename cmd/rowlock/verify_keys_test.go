package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Keys and certificates with which no server starts are found in a data directory, and in a backup of it.
func TestVerifyOfKeys(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, empty places) {
		place := empty(t)
		start(t, place.args()...).end()
		pki := filepath.Join(place.dir, "pki")
		for file, damage := range map[string]struct{ text, want string }{
			"ca.key":             {"", "file pki/ca.key: pki/ca.key: "},
			"front-proxy-ca.key": {content(t, filepath.Join(pki, "ca.key")), "file pki/front-proxy-ca.key: pki/front-proxy-ca.key is not the key of pki/front-proxy-ca.crt\n    no server starts with it: restore it"},
			"sa.key":             {"x", "file pki/sa.key: no key in PEM\n    no server starts with it: restore it"},
		} {
			path, backup := filepath.Join(pki, file), filepath.Join(t.TempDir(), "backup")
			good := content(t, path)
			if err := os.WriteFile(path, []byte(damage.text), 0o600); err != nil {
				t.Fatal(err)
			}
			runs(t, append([]string{"backup", backup}, place.args()...)...)
			for what, args := range map[string][]string{"the data directory": {"verify"}, "a backup": {"verify", backup}} {
				code, stdout, stderr := command(t, append(args, place.args()...)...)
				if code != exitFailure || !strings.Contains(stdout, damage.want) || !strings.Contains(stderr, "the store is not whole: 1 thing is wrong") {
					t.Errorf("%s with %s: exit code %d, %s%s", what, file, code, stdout, stderr)
				}
			}
			if left := content(t, path); left != damage.text {
				t.Errorf("%s has %q now", file, left)
			}
			if err := os.WriteFile(path, []byte(good), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if out := runs(t, append([]string{"verify"}, place.args()...)...); !strings.Contains(out, "nothing is wrong") {
			t.Error(out)
		}
		start(t, place.args()...).end()
	})
}

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
