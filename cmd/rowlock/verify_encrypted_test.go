package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// With the keys, encrypted objects are verified like others, including the definitions of custom resources; without keys they are counted.
func TestVerifyEncrypted(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, empty places) {
		place, file, others := empty(t), filepath.Join(t.TempDir(), "encryption.yaml"), filepath.Join(t.TempDir(), "others.yaml")
		encrypt(t, file, "*.*", secretbox("a"))
		encrypt(t, others, "*.*", secretbox("b"))
		keys := []string{"--encryption-provider-config", file}
		p := start(t, slices.Concat([]string{"--object-history", "7d,20"}, keys, place.args())...)
		client := p.client(t)
		send(t, client, "POST", crds, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},
			"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},"versions":`+widgetVersions("v2")+`}}`)
		send(t, client, "POST", widgets, `{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"w"},"spec":{"n":1}}`)
		for _, name := range []string{"a", "b"} {
			if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), newConfigMap(name, "1"), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if kept := send(t, client, "GET", "/apis/history.rowlock.dev/v1/namespaces/default/revisions", ""); !strings.Contains(kept, "configmaps") {
			t.Fatalf("the object history has %s", kept)
		}
		p.end()
		backup := filepath.Join(t.TempDir(), "backup")
		runs(t, append([]string{"backup", backup}, place.args()...)...)
		verify := append([]string{"verify"}, place.args()...)
		for _, of := range [][]string{verify, slices.Concat(verify, []string{backup})} {
			out := runs(t, slices.Concat(of, keys)...)
			if history := len(of) == len(verify); !strings.Contains(out, "nothing is wrong") || strings.Contains(out, "encrypted") || // a backup has no history
				strings.Contains(out, "writes in the object history; ") != history {
				t.Errorf("%v, with the keys: %s", of, out)
			}
			if out := runs(t, of...); !strings.Contains(out, "are encrypted, and were not decoded, for want of --encryption-provider-config") {
				t.Errorf("%v, without the keys: %s", of, out)
			}
			code, stdout, _ := command(t, slices.Concat(of, []string{"--encryption-provider-config", others})...)
			if code != exitFailure || !strings.Contains(stdout, ": cannot be decrypted: no matching key") {
				t.Errorf("%v, with other keys: exit code %d, %s", of, code, stdout)
			}
		}
		data, err := os.ReadFile(backup)
		if err != nil {
			t.Fatal(err)
		}
		verifyExchanged(t, data, keys)
	})
}

// verifyExchanged replaces the encrypted data of one object by that of another.
func verifyExchanged(t *testing.T, data []byte, keys []string) {
	var columns []string
	var of any
	damaged := filepath.Join(t.TempDir(), "damaged")
	change := func(row []any) []any {
		if row[slices.Index(columns, "resource")] == any("configmaps") {
			switch at := slices.Index(columns, "data"); row[slices.Index(columns, "name")] {
			case "a":
				of = row[at]
			case "b":
				row[at] = of
			}
		}
		return row
	}
	if err := os.WriteFile(damaged, rewritten(t, data, func(c []string) []string { columns = c; return c }, change), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, _ := command(t, append([]string{"verify", damaged}, keys...)...)
	if code != exitFailure || !strings.Contains(stdout, "objects configmaps/default/b: has revision") || strings.Count(stdout, "objects ") != 2 {
		t.Errorf("exit code %d, %s", code, stdout)
	}
}
