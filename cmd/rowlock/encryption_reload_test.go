package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rowlock/rowlock/resources/upstream/upstreamtest"
	"github.com/rowlock/rowlock/sqlstore/kmstest"
)

// kms returns a provider with a plugin. A reload waits for the plugin for twice the timeout.
func kms(name string, plugin *kmstest.Plugin, timeout time.Duration) string {
	return fmt.Sprintf("kms: {apiVersion: v2, name: %s, timeout: %s, endpoint: '%s'}", name, timeout, plugin.Endpoint)
}

// reloading is a server with encryption that follows its file.
type reloading struct {
	*process
	dir, file string
	written   int // how many Secrets the test has written
}

// reloads returns how often the file was taken, or refused.
func (r *reloading) reloads(t *testing.T, status string) (n float64) {
	t.Helper()
	metrics := r.path(t, "/metrics")
	for line := range strings.Lines(metrics) {
		series, _, _ := strings.Cut(line, " ")
		if strings.HasPrefix(series, "apiserver_encryption_config_controller_automatic_reloads_total{") && strings.Contains(series, `status="`+status+`"`) {
			n += valueIn(t, metrics, series)
		}
	}
	return n
}

// reload replaces the file, and waits until it is in force.
func (r *reloading) reload(t *testing.T, providers ...string) {
	t.Helper()
	before := r.reloads(t, "success")
	encryptSecrets(t, r.file, providers...)
	r.await(t, "success", before+1)
}

// refused replaces the file by one that cannot be used, and waits until it is refused. A refused file is read again and again, so the one of before may
// be refused until it is replaced, and once more if it was read by then.
func (r *reloading) refused(t *testing.T, providers ...string) {
	t.Helper()
	encryptSecrets(t, r.file, providers...)
	r.await(t, "failure", r.reloads(t, "failure")+2)
}

func (r *reloading) await(t *testing.T, status string, count float64) {
	t.Helper()
	until(t, "a further reload that is a "+status, func() bool { return r.reloads(t, status) >= count })
}

// writes checks that a new Secret is encrypted by the provider with a prefix, all Secrets can be read, and the server is healthy.
func (r *reloading) writes(t *testing.T, when, prefix string) {
	t.Helper()
	sealed := fmt.Sprintf(`apiserver_storage_transformation_operations_total{resource="secrets",status="OK",transformation_type="to_storage",transformer_prefix=%q}`,
		strings.TrimSuffix(prefix, "a:")) // without the name of a key
	before := valueIn(t, r.path(t, "/metrics"), sealed)
	r.written++
	secrets := r.client(t).CoreV1().Secrets("default")
	if _, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("s", r.written)}}, metav1.CreateOptions{}); err != nil {
		t.Errorf("%s: %v", when, err)
	}
	if n := valueIn(t, r.path(t, "/metrics"), sealed) - before; n == 0 || !databaseHas(t, r.dir, prefix) {
		t.Errorf("%s: nothing was written with %s", when, prefix)
	}
	r.reads(t, when)
	if body := r.path(t, "/healthz/kms-providers"); body != "ok" {
		t.Errorf("%s: /healthz/kms-providers: %s", when, body)
	}
}

func (r *reloading) reads(t *testing.T, when string) {
	t.Helper()
	if list, err := r.client(t).CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != r.written {
		t.Errorf("%s: %d Secrets are listed, %v", when, len(list.Items), err)
	}
}

// A changed file is in force once it is valid and its KMS plugins answer. Until then the former keys are.
func TestEncryptionReload(t *testing.T) {
	upstreamtest.HurryEncryption(t)
	r := &reloading{dir: t.TempDir(), file: filepath.Join(t.TempDir(), "encryption.yaml")}
	args := []string{"--data-dir", r.dir, "--encryption-provider-config", r.file, "--encryption-provider-config-automatic-reload"}
	encryptSecrets(t, r.file, secretbox("a"))
	r.process = start(t, args...)
	first, second := kmstest.New(t), kmstest.New(t) // after the server: the first one in a process sets the log that plugins use
	first.Stop()
	inForce, successes := r.metric(t, lastConfigInfo), r.reloads(t, "success")
	const long = 10 * time.Second
	const keys, firsts, seconds = "k8s:enc:secretbox:v1:a:", "k8s:enc:kms:v2:first:", "k8s:enc:kms:v2:second:"
	r.writes(t, "at the start", keys)

	r.refused(t, "secretbox: {keys: [{name: b, secret: dG9vIHNob3J0}]}")
	r.writes(t, "with an invalid file", keys)
	r.refused(t, kms("first", first, 100*time.Millisecond), secretbox("a"))
	r.writes(t, "with a plugin that does not answer", keys)
	if shown := r.metric(t, lastConfigInfo); shown != inForce || r.reloads(t, "success") != successes {
		t.Errorf("a refused file is shown to be in force: %s, and before %s", shown, inForce)
	}
	first.Start(t)
	r.await(t, "success", successes+1)
	r.writes(t, "with the plugin", firsts)
	if shown := r.metric(t, lastConfigInfo); shown == inForce {
		t.Errorf("the file of before is shown to be in force: %s", shown)
	}
	r.reload(t, kms("second", second, long), kms("first", first, long), secretbox("a"))
	r.writes(t, "with another plugin", seconds)

	// The first plugin is needed no longer once everything is encrypted by the second.
	secrets := r.client(t).CoreV1().Secrets("default")
	list, err := secrets.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list.Items {
		if _, err := secrets.Update(t.Context(), &s, metav1.UpdateOptions{}); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
	}
	first.Stop()
	r.reload(t, kms("second", second, long))
	r.writes(t, "without the first plugin", seconds)
	if code := r.end(); code != 0 {
		t.Errorf("ended with %d", code)
	}
	r.process = start(t, args...)
	r.reads(t, "after a restart")
	if code := r.end(); code != 0 {
		t.Errorf("ended with %d", code)
	}
}
