package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"

	"github.com/rowlock/rowlock/resources/upstream/upstreamtest"
	"github.com/rowlock/rowlock/sqlstore/kmstest"
)

// encryptSecrets writes a configuration that encrypts Secrets by providers, each a line of YAML.
func encryptSecrets(t *testing.T, file string, providers ...string) {
	t.Helper()
	encrypt(t, file, "secrets", providers...)
}

func encrypt(t *testing.T, file, resource string, providers ...string) {
	t.Helper()
	text := "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources:\n- resources: ['" + resource + "']\n  providers:\n"
	for _, p := range providers {
		text += "  - " + p + "\n"
	}
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

func secretbox(name string) string {
	return fmt.Sprintf("secretbox: {keys: [{name: %s, secret: %s}]}", name, base64.StdEncoding.EncodeToString([]byte(strings.Repeat(name, 32))))
}

// lastConfigInfo is the metric with a hash of the file in force.
const lastConfigInfo = "apiserver_encryption_config_controller_last_config_info{"

// metric returns the first line of /metrics with a prefix, or nothing.
func (p *process) metric(t *testing.T, begins string) string {
	t.Helper()
	for line := range strings.Lines(p.path(t, "/metrics")) {
		if strings.HasPrefix(line, begins) {
			return line
		}
	}
	return ""
}

// path returns the answer for a path, as text.
func (p *process) path(t *testing.T, path string) string {
	t.Helper()
	body, err := p.client(t).RESTClient().Get().AbsPath(path).Param("verbose", "").DoRaw(t.Context())
	if err != nil {
		return fmt.Sprintf("%s: %v", body, err)
	}
	return string(body)
}

// databaseHas tells whether any file of the database contains a text.
func databaseHas(t *testing.T, dir, text string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "rowlock.db*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		content, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(content, []byte(text)) {
			return true
		}
	}
	return false
}

// A key is rotated as the documentation of Kubernetes describes it, while the server runs, and rowlock rewrite encrypts existing objects.
func TestEncryption(t *testing.T) {
	upstreamtest.HurryEncryption(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "encryption.yaml")
	p := start(t, "--data-dir", dir)
	secrets := p.client(t).CoreV1().Secrets("default")
	marker := base64.StdEncoding.EncodeToString([]byte("the marker of this test"))
	made, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"k": "the marker of this test"}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if p.end(); !databaseHas(t, dir, marker) {
		t.Fatal("it is not in the database")
	}

	// The existing object is encrypted.
	encryptSecrets(t, file, secretbox("a"), "identity: {}")
	var said, wrong bytes.Buffer
	if code := run(t.Context(), []string{"rewrite", "--data-dir", dir, "--encryption-provider-config", file}, &said, &wrong); code != 0 {
		t.Fatalf("rewrite: %d %s", code, wrong.String())
	}
	if databaseHas(t, dir, marker) || !strings.Contains(said.String(), "objects: 1 of") || !strings.Contains(said.String(), "changes: 0 of") {
		t.Errorf("it is still in the database, or it said %s", said.String())
	}

	// A new key becomes the first one; then an update without a change is written.
	p = start(t, "--data-dir", dir, "--encryption-provider-config", file, "--encryption-provider-config-automatic-reload")
	secrets = p.client(t).CoreV1().Secrets("default")
	update := func() string {
		t.Helper()
		s, err := secrets.Get(t.Context(), "s", metav1.GetOptions{})
		if err == nil {
			s, err = secrets.Update(t.Context(), s, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		return s.ResourceVersion
	}
	if v := update(); v != made.ResourceVersion {
		t.Errorf("what is as it should be was written at %s, which was at %s", v, made.ResourceVersion)
	}
	for path, want := range map[string]bool{"/healthz": true, "/readyz": true, "/livez": false} {
		if body := p.path(t, path); strings.Contains(body, "[+]kms-providers ok") != want {
			t.Errorf("%s: %s", path, body)
		}
	}
	if body := p.path(t, "/healthz/kms-providers"); body != "ok" {
		t.Errorf("/healthz/kms-providers: %s", body)
	}
	inForce := p.metric(t, lastConfigInfo)
	encryptSecrets(t, file, secretbox("b"), secretbox("a"))
	if !strings.Contains(inForce, `hash="sha256:`) {
		t.Errorf("which file is in force is not shown: %q", inForce)
	}
	const reloaded = `apiserver_encryption_config_controller_automatic_reloads_total{`
	deadline := time.Now().Add(5 * time.Minute)
	for !strings.Contains(p.path(t, "/metrics"), reloaded) {
		if time.Now().After(deadline) {
			t.Fatal("it is not read again")
		}
	}
	shown := inForce
	for ; shown == inForce; shown = p.metric(t, lastConfigInfo) { // the reload is counted a moment before the metric changes
		if time.Now().After(deadline) {
			t.Fatal("the file of before is shown to be in force")
		}
	}
	first := update()
	if second := update(); first == made.ResourceVersion || second != first {
		t.Errorf("of %s, updates without a change came to %s and then %s", made.ResourceVersion, first, second)
	}
	if metrics := p.path(t, "/metrics"); !strings.Contains(metrics, `apiserver_storage_transformation_operations_total{`) {
		t.Errorf("no transformation is counted")
	}
	if code := p.end(); code != 0 || databaseHas(t, dir, marker) || !databaseHas(t, dir, "k8s:enc:secretbox:v1:b:") {
		t.Errorf("ended with %d, or the database has not what it should", code)
	}

	// Without its key the object cannot be read, which affects no others.
	encryptSecrets(t, file, secretbox("c"))
	p = start(t, "--data-dir", dir, "--encryption-provider-config", file)
	const text = "Internal error occurred: StorageError: corrupt object, Code: 7, Key: /secrets/default/s, ResourceVersion: 0, " +
		"AdditionalErrorMsg: data from the storage is not transformable revision=0: no matching key was found for the provided Secretbox transformer"
	if last := p.metric(t, lastConfigInfo); last == shown || !strings.Contains(last, `hash="sha256:`) {
		t.Errorf("without a reload, which file is in force is not shown: %q, and before %q", last, shown)
	}
	secrets = p.client(t).CoreV1().Secrets("default")
	if _, err := secrets.Get(t.Context(), "s", metav1.GetOptions{}); err == nil || err.Error() != text {
		t.Errorf("get: %v", err)
	}
	if _, err := secrets.List(t.Context(), metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), "corrupt object, Code: 7, Key: /registry/secrets/default/s,") {
		t.Errorf("list: %v", err)
	}
	if err := secrets.Delete(t.Context(), "s", metav1.DeleteOptions{}); err == nil || err.Error() != text {
		t.Errorf("delete: %v", err)
	}
	if _, err := p.client(t).CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("list of another type: %v", err)
	}
	if code := p.end(); code != 0 {
		t.Errorf("ended with %d", code)
	}
}

// While a KMS plugin does not answer, the server is not healthy, and does not write objects that it cannot encrypt.
func TestEncryptionWithoutPlugin(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "encryption.yaml")
	plugin := kmstest.New(t)
	plugin.Stop()
	encryptSecrets(t, file, "kms: {apiVersion: v2, name: plugin, timeout: 1s, endpoint: '"+plugin.Endpoint+"'}")
	p := start(t, "--data-dir", dir, "--encryption-provider-config", file)
	for _, path := range []string{"/healthz", "/readyz"} {
		if body := p.path(t, path); !strings.Contains(body, "[-]kms-providers failed") {
			t.Errorf("%s: %s", path, body)
		}
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
	if _, err := p.client(t).CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err == nil ||
		!strings.HasPrefix(err.Error(), "Internal error occurred: got unexpected nil transformer") {
		t.Errorf("create: %v", err)
	}
	if code := p.end(); code != 0 {
		t.Errorf("ended with %d", code)
	}
}

// A server whose own objects are encrypted waits for a KMS plugin that starts after it.
func TestStartWaitsForPlugin(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, empty places) {
		place, file, plugin := empty(t), filepath.Join(t.TempDir(), "encryption.yaml"), kmstest.New(t)
		encrypt(t, file, "*.*", "kms: {apiVersion: v2, name: plugin, timeout: 1s, endpoint: '"+plugin.Endpoint+"'}")
		args := place.args("--encryption-provider-config", file)
		for _, state := range []string{"empty", "encrypted"} {
			plugin.Stop()
			p, waits := &process{}, make(chan struct{})
			var once sync.Once
			go func() {
				<-waits
				plugin.Start(t)
			}()
			p.startLogging(t, writerFunc(func(line []byte) {
				if bytes.Contains(line, []byte("cannot be used yet, trying again")) {
					once.Do(func() { close(waits) })
				}
				p.stderr.Write(line)
			}), args...)
			if body := p.path(t, "/readyz"); !strings.Contains(body, "[+]kms-providers ok") {
				t.Errorf("%s: %s", state, body)
			}
			if code := p.end(); code != 0 {
				t.Errorf("%s: ended with %d", state, code)
			}
		}
	})
}

// writerFunc writes by calling a function.
type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

// Commands that write to the database encrypt as the servers do, and servers can read their rows.
func TestEncryptionByCommands(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "encryption.yaml")
	encrypt(t, file, "*.*", secretbox("a"))
	serving := []string{"--data-dir", dir, "--encryption-provider-config", file}
	if code := start(t, serving...).end(); code != 0 {
		t.Fatalf("ended with %d", code)
	}
	var said, wrong bytes.Buffer
	if code := run(t.Context(), append([]string{"token", "create", "--user", "jane-of-this-test"}, serving...), &said, &wrong); code != 0 {
		t.Fatalf("token create: %d %s", code, wrong.String())
	}
	if databaseHas(t, dir, `"jane-of-this-test"`) {
		t.Error("the token's user is in the database")
	}
	p := start(t, serving...)
	if who := whoami(t, p.as(t, strings.TrimSpace(said.String()))); who != "jane-of-this-test" {
		t.Errorf("the token is that of %s", who)
	}
	if code := p.end(); code != 0 {
		t.Errorf("ended with %d", code)
	}
	if code, _, stderr := command(t, "serve", "--data-dir", dir, "--listen", "127.0.0.1:0"); code != exitFailure ||
		!strings.Contains(stderr, "and no --encryption-provider-config says by which keys") {
		t.Errorf("without the keys: %d %s", code, stderr)
	}
}

// Configuration errors are reported before anything is done.
func TestEncryptionIsChecked(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "identity.yaml")
	if err := os.WriteFile(plain, []byte("apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n"+
		"resources: [{resources: [secrets], providers: [{identity: {}}]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := command(t, "rewrite", "--data-dir", t.TempDir(), "--encryption-provider-config", plain); code != exitFailure ||
		!strings.Contains(stderr, "there is no database at") {
		t.Errorf("where there is no database: %d %s", code, stderr)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "encryption.yaml")
	encryptSecrets(t, file, "secretbox: {keys: [{name: a, secret: dG9vIHNob3J0}]}")
	for _, c := range []struct {
		want string
		code int
		args []string
	}{
		{"must be set with --encryption-provider-config", exitUsage, []string{"serve", "--encryption-provider-config-automatic-reload"}},
		{"no such file", exitFailure, []string{"serve", "--encryption-provider-config", file + ".not"}},
		{"secret is not of the expected length", exitFailure, []string{"serve", "--encryption-provider-config", file}},
		{"by which keys", exitUsage, []string{"rewrite"}},
	} {
		var wrong bytes.Buffer
		code := run(t.Context(), append(c.args, "--data-dir", filepath.Join(dir, "data")), &bytes.Buffer{}, &wrong)
		if code != c.code || !strings.Contains(wrong.String(), c.want) {
			t.Errorf("%v: %d %s", c.args, code, wrong.String())
		}
		if _, err := os.Stat(filepath.Join(dir, "data", "rowlock.db")); err == nil {
			t.Errorf("%v made a database", c.args)
		}
	}
}

// Errors of the file are reported without its keys, at the start and when it is read again.
func TestEncryptionKeysAreNotTold(t *testing.T) {
	for _, c := range []struct{ name, secret, key string }{
		{"a key", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="},
		{"a quote in it", `'MDEyMzQ1"Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY='`, "Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="},
		{"a backslash at its end", `'MDEyMzQ1Njc4OWFi\'`, "MDEyMzQ1Njc4OWFi"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "encryption.yaml")
			encryptSecrets(t, file, "{identity: {}, aesgcm: {keys: [{name: a, secret: "+c.secret+"}]}}")
			code, _, stderr := command(t, "serve", "--encryption-provider-config", file, "--data-dir", filepath.Join(dir, "data"))
			if code != exitFailure || !strings.Contains(stderr, "more than one provider") || strings.Contains(stderr, c.key) {
				t.Errorf("%d %s", code, stderr)
			}
			_, err := encryptionconfig.LoadEncryptionConfig(t.Context(), file, true, "x")
			if err == nil || !strings.Contains(err.Error(), c.key) {
				t.Fatalf("upstream tells %v: hideKeys is for nothing", err)
			}
			for _, format := range []string{"text", "json"} {
				var log bytes.Buffer
				options := &logOptions{level: "warn", format: format}
				options.logger(&log)
				utilruntime.HandleErrorWithContext(t.Context(), err, "cannot be read again")
				if s := log.String(); !strings.Contains(s, "more than one provider") || !strings.Contains(s, "REDACTED") || strings.Contains(s, c.key) {
					t.Errorf("%s: %s", format, s)
				}
			}
		})
	}
}

// An unencrypted backup reports its readable contents, including the Secrets that the store does not encrypt.
func TestBackupOfEncrypted(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, empty places) {
		place := empty(t)
		file := filepath.Join(t.TempDir(), "encryption.yaml")
		says := func(want string, more ...string) {
			t.Helper()
			args := append([]string{"backup", filepath.Join(t.TempDir(), "b")}, place.args(more...)...)
			if code, _, stderr := command(t, args...); code != 0 || !strings.Contains(stderr, "It is not encrypted: whoever reads it has "+want+".\n") {
				t.Errorf("%d, %s; want %s", code, stderr, want)
			}
		}
		const keys = ", and the keys of the cluster, by which one may do everything there"
		create := func(name string, more ...string) {
			t.Helper()
			p := start(t, place.args(more...)...)
			send(t, p.client(t), "POST", "/api/v1/namespaces/default/secrets", `{"metadata":{"name":"`+name+`"}}`)
			p.end()
		}
		encryptSecrets(t, file, secretbox("a"), "identity: {}")
		create("clear")
		says("all Secrets" + keys)
		create("sealed", "--encryption-provider-config", file)
		says("1 of the 2 Secrets, which the store does not encrypt" + keys)
		runs(t, append([]string{"rewrite", "--encryption-provider-config", file}, place.args()...)...)
		says("all but the Secrets, which the store encrypts" + keys)
		const names = "the names of all objects, whose content the store encrypts"
		if len(place.flags) == 0 { // on Postgres the keys are in the database
			elsewhere := []string{"--datastore", "sqlite://" + filepath.Join(place.dir, "rowlock.db"), "--data-dir", t.TempDir()}
			says("all but the Secrets, which the store encrypts", elsewhere...)
			encrypt(t, file, "*.*", secretbox("a"), "identity: {}")
			runs(t, append([]string{"rewrite", "--encryption-provider-config", file}, place.args()...)...)
			says(names + keys) // in files
			says(names, elsewhere...)
		} else { // not encrypted as long as nothing else is
			says("all but the Secrets, which the store encrypts"+keys, "--data-dir", t.TempDir())
			encrypt(t, file, "secrets', 'authorities.rowlock.internal", secretbox("a"), "identity: {}")
			runs(t, append([]string{"rewrite", "--encryption-provider-config", file}, place.args()...)...)
			says("all but the Secrets, which the store encrypts"+keys, "--data-dir", t.TempDir()) // the keys of tokens
			encrypt(t, file, "*.*", secretbox("a"), "identity: {}")
			runs(t, append([]string{"rewrite", "--encryption-provider-config", file}, place.args()...)...)
			says(names, "--data-dir", t.TempDir())
		}
	})
}
