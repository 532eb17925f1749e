package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rowlock/rowlock/resources/upstream"
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

// Commands that take an EncryptionConfiguration have no --feature-gates, which a server needs for a plugin of KMS v1. They use the plugin all the same.
func TestKMSv1OfCommands(t *testing.T) {
	gate := func(on bool) {
		t.Helper()
		if err := upstream.SetFeatureGates(map[string]bool{"KMSv1": on}); err != nil {
			t.Fatal(err)
		}
	}
	defer gate(false)
	onEachDatabase(t, func(t *testing.T, empty places) {
		place, file, plugin := empty(t), filepath.Join(t.TempDir(), "encryption.yaml"), kmstest.New(t)
		encryptSecrets(t, file, "kms: {name: vault, endpoint: '"+plugin.Endpoint+"', timeout: 10s}", "identity: {}")
		keys := []string{"--encryption-provider-config", file}
		serving := slices.Concat(keys, place.args())
		if code, _, stderr := command(t, append([]string{"serve", "--listen", "127.0.0.1:0", "--feature-gates", "KMSv1=false"}, serving...)...); code != exitFailure ||
			!strings.Contains(stderr, "Set --feature-gates=KMSv1=true") {
			t.Errorf("a server without the gate: exit code %d, %s", code, stderr)
		}
		serving = append(serving, "--feature-gates", "KMSv1=true")
		p := start(t, serving...)
		if _, err := p.client(t).CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		p.end()
		works := func(args ...string) {
			t.Helper()
			gate(false) // each command is a process of its own
			runs(t, args...)
		}
		dir := t.TempDir()
		backup, snapshot := filepath.Join(dir, "backup"), filepath.Join(dir, "snapshot")
		works(slices.Concat([]string{"verify"}, keys, place.args())...)
		works(slices.Concat([]string{"sql", "SELECT name FROM secrets"}, keys, place.args())...)
		works(slices.Concat([]string{"rewrite"}, keys, place.args())...)
		works(slices.Concat([]string{"token", "create", "--user", "jane"}, keys, place.args())...)
		works(slices.Concat([]string{"export", "--target-encryption-provider-config", file, snapshot}, keys, place.args())...)
		works(append([]string{"backup", backup}, place.args()...)...)
		url, schema := empty(t).database()
		works(slices.Concat([]string{"import", "--to", url, "--to-schema", schema, "--source-encryption-provider-config", file, snapshot}, keys)...)
		p = start(t, serving...)
		works(append(slices.Concat([]string{"restore", "--namespace", "default", "--dry-run", "--data-dir", place.dir}, keys), backup)...)
		p.end()
	})
}
