package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rowlock/rowlock/sqlstore/kmstest"
)

// Commands that read many rows call a KMS plugin once for each data encryption key, of which a server has one for as long as it runs, and not
// once for each object.
func TestKMSIsAskedSeldom(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, empty places) {
		place, file, plugin := empty(t), filepath.Join(t.TempDir(), "encryption.yaml"), kmstest.New(t)
		encrypt(t, file, "*.*", "kms: {apiVersion: v2, name: vault, endpoint: '"+plugin.Endpoint+"', timeout: 10s}")
		keys := []string{"--encryption-provider-config", file}
		const servers, each = 2, 20
		for s := range servers {
			p := start(t, slices.Concat(keys, []string{"--object-history", "7d,20"}, place.args())...)
			for i := range each {
				if _, err := p.client(t).CoreV1().ConfigMaps("default").Create(t.Context(), newConfigMap(fmt.Sprintf("%d-%d", s, i), "1"), metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			p.end()
		}
		backup := filepath.Join(t.TempDir(), "backup")
		runs(t, append([]string{"backup", backup}, place.args()...)...)
		asked := func(what string, most int, f func()) {
			t.Helper()
			before := plugin.Decrypted()
			f()
			got := plugin.Decrypted() - before
			if got > most {
				t.Errorf("%s asked %d times, want at most %d", what, got, most)
			}
		}
		verify := slices.Concat([]string{"verify"}, keys, place.args())
		asked("verify", servers, func() {
			if out := runs(t, verify...); !strings.Contains(out, "nothing is wrong") {
				t.Error(out)
			}
		})
		asked("verify of a backup", servers, func() { runs(t, append(verify, backup)...) })
		asked("sql", servers, func() {
			runs(t, slices.Concat([]string{"sql", "SELECT count(*), min(data) FROM configmaps"}, keys, place.args())...)
		})
		p := start(t, slices.Concat(keys, place.args())...)
		asked("restore", servers, func() {
			runs(t, append(slices.Concat([]string{"restore", "--namespace", "default", "--dry-run", "--data-dir", place.dir}, keys), backup)...)
		})
		p.end()
		asked("rewrite", servers+1, func() { runs(t, slices.Concat([]string{"rewrite"}, keys, place.args())...) })
	})
}
