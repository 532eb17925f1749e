package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Keys and certificates with which no server starts are found in a data directory, and in a backup of it. On Postgres a server replaces an authority
// whose key does not fit by the one in the database, so that is a finding in a backup alone, which may be restored to SQLite.
func TestVerifyOfKeys(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, empty places) {
		place := empty(t)
		start(t, place.args()...).end()
		pki, postgres := filepath.Join(place.dir, "pki"), len(place.flags) > 0
		misfit := "file pki/front-proxy-ca.key: pki/front-proxy-ca.key is not the key of pki/front-proxy-ca.crt\n    no server starts with it: restore it"
		if postgres {
			misfit = strings.Replace(misfit, "no server starts", "no server on SQLite starts", 1)
		}
		for file, damage := range map[string]struct {
			text, want string
			repaired   bool // by the start of a server
		}{
			"ca.key":             {"", "file pki/ca.key: pki/ca.key: ", false},
			"front-proxy-ca.key": {content(t, filepath.Join(pki, "ca.key")), misfit, postgres},
			"sa.key":             {"x", "file pki/sa.key: no key in PEM\n    no server starts with it unless --service-account-signing-key-file is given: restore it", false},
		} {
			path, backup := filepath.Join(pki, file), filepath.Join(t.TempDir(), "backup")
			good := content(t, path)
			if err := os.WriteFile(path, []byte(damage.text), 0o600); err != nil {
				t.Fatal(err)
			}
			runs(t, append([]string{"backup", backup}, place.args()...)...)
			for what, args := range map[string][]string{"the data directory": {"verify"}, "a backup": {"verify", backup}} {
				code, stdout, stderr := command(t, append(args, place.args()...)...)
				if damage.repaired && len(args) == 1 {
					if code != 0 || !strings.Contains(stdout, "nothing is wrong") {
						t.Errorf("%s with %s: exit code %d, %s%s", what, file, code, stdout, stderr)
					}
				} else if code != exitFailure || !strings.Contains(stdout, damage.want) || !strings.Contains(stderr, "the store is not whole: 1 thing is wrong") {
					t.Errorf("%s with %s: exit code %d, %s%s", what, file, code, stdout, stderr)
				}
			}
			if left := content(t, path); left != damage.text {
				t.Errorf("%s has %q now", file, left)
			}
			if damage.repaired {
				start(t, place.args()...).end()
				if content(t, path) != good {
					t.Errorf("a server has not repaired %s", file)
				}
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
