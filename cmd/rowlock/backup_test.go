package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A restored backup has the same objects, uids, times, resourceVersions and managedFields as when it was made, whatever was written since. An
// informer that stayed connected ends with them: the restored store continues with higher resourceVersions than it has seen.
func TestBackupAndRestore(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, empty places) {
		first, second := empty(t), empty(t)
		address := freeAddress(t)
		p := start(t, first.args("--listen", address)...)
		client := p.client(t)
		send(t, client, "POST", crds, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},
			"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},"versions":`+widgetVersions("v2")+`}}`)
		send(t, client, "POST", widgets, `{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"w"},"spec":{"n":1}}`)
		configMaps := client.CoreV1().ConfigMaps("default")
		for _, name := range []string{"kept", "changed", "deleted"} {
			if _, err := configMaps.Create(t.Context(), newConfigMap(name, "before"), metav1.CreateOptions{FieldManager: "somebody"}); err != nil {
				t.Fatal(err)
			}
		}
		seen := follow(t, client)
		seen.until(t, "changed=before deleted=before kept=before")
		before := everything(t, client)

		file := filepath.Join(t.TempDir(), "backup")
		passphrase := filepath.Join(t.TempDir(), "passphrase")
		if err := os.WriteFile(passphrase, []byte("correct horse\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		runs(t, append([]string{"backup", "--passphrase-file", passphrase, file}, first.args()...)...)
		if _, err := configMaps.Update(t.Context(), newConfigMap("changed", "after"), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := configMaps.Delete(t.Context(), "deleted", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		last, err := configMaps.Create(t.Context(), newConfigMap("lost", "after"), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		seen.until(t, "changed=after kept=before lost=after")
		p.end()

		runs(t, append([]string{"restore", "--passphrase-file", passphrase, file}, second.args()...)...)
		p = start(t, second.args("--listen", address)...)
		if diff := cmp.Diff(before, everything(t, p.client(t))); diff != "" {
			t.Errorf("-before the backup, +restored:\n%s", diff)
		}
		// The former credentials are valid: client is still the same.
		seen.until(t, "changed=before deleted=before kept=before")
		created, err := configMaps.Create(t.Context(), newConfigMap("new", "after"), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		seen.until(t, "changed=before deleted=before kept=before new=after")
		if newer, err := strictlyNewer(created.ResourceVersion, last.ResourceVersion); err != nil || !newer {
			t.Errorf("the first revision is %s; %s was given before (%v)", created.ResourceVersion, last.ResourceVersion, err)
		}
		w, err := configMaps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: last.ResourceVersion})
		if err == nil {
			defer w.Stop()
			e := <-w.ResultChan()
			err = apierrors.FromObject(e.Object)
		}
		if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			t.Errorf("a watch from a revision of before: %v", err)
		}
		p.end()
	})
}

func strictlyNewer(a, b string) (bool, error) {
	var x, y int64
	if _, err := fmt.Sscan(a+" "+b, &x, &y); err != nil {
		return false, err
	}
	return x > y, nil
}

// A backup that is made during many writes is one state: each writer writes its counter to two objects in order, and the second one is never
// ahead in a backup.
func TestBackupWhileWriting(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, empty places) {
		first, second := empty(t), empty(t)
		p := start(t, first.args()...)
		configMaps := p.client(t).CoreV1().ConfigMaps("default")
		for _, name := range []string{"a", "b"} {
			if _, err := configMaps.Create(t.Context(), newConfigMap(name, "0"), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		rounds, ended := make(chan int), make(chan error, 1)
		go func() {
			var err error
			for n := 1; ctx.Err() == nil && err == nil; n++ {
				for _, name := range []string{"a", "b"} {
					if _, uerr := configMaps.Update(context.WithoutCancel(ctx), newConfigMap(name, fmt.Sprint(n)), metav1.UpdateOptions{}); uerr != nil {
						err = uerr
					}
				}
				select {
				case rounds <- n:
				default:
				}
			}
			ended <- err
		}()
		file := filepath.Join(t.TempDir(), "backup")
		for range 5 {
			<-rounds
			runs(t, append([]string{"backup", file}, first.args()...)...)
			<-rounds
		}
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		p.end()
		runs(t, append([]string{"restore", file}, second.args()...)...)
		p = start(t, second.args()...)
		var values [2]int
		for i, name := range []string{"a", "b"} {
			c, err := p.client(t).CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := fmt.Sscan(c.Data["v"], &values[i]); err != nil {
				t.Fatal(err)
			}
		}
		if d := values[0] - values[1]; values[1] == 0 || d < 0 || d > 1 {
			t.Errorf("the first object is at %d, the second one at %d", values[0], values[1])
		}
		p.end()
	})
}

// A backup of one kind of database is restored into the other, and back.
func TestRestoreIntoTheOtherDatabase(t *testing.T) {
	c := newPostgres(t)
	sqlite, postgres, again := storePlace{dir: filepath.Join(t.TempDir(), "a")}, storePlace{filepath.Join(t.TempDir(), "b"), []string{"--datastore", c.URL()}},
		storePlace{dir: filepath.Join(t.TempDir(), "c")}
	p := start(t, sqlite.args()...)
	client := p.client(t)
	for i := range 5 {
		if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), newConfigMap(fmt.Sprintf("c%d", i), "x"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	want := madeConfigMaps(t, client)
	p.end()
	kubeconfig, err := os.ReadFile(p.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	// A backup from a machine without a server has no files, but it has the keys that the servers share.
	elsewhere := storePlace{filepath.Join(t.TempDir(), "none"), postgres.flags}
	for _, step := range [][2]storePlace{{sqlite, postgres}, {postgres, again}, {elsewhere, storePlace{dir: filepath.Join(t.TempDir(), "d")}}} {
		var data bytes.Buffer
		cmd := newBackupCommand()
		cmd.SetArgs(append([]string{"-"}, step[0].args()...))
		cmd.SetOut(&data)
		cmd.SetErr(&bytes.Buffer{})
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		cmd = newRestoreCommand()
		cmd.SetArgs(append([]string{"-"}, step[1].args()...))
		cmd.SetIn(&data)
		cmd.SetOut(&bytes.Buffer{})
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		p = start(t, step[1].args()...)
		if diff := cmp.Diff(want, madeConfigMaps(t, p.client(t))); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		p.end()
		// The authority is the same: clients that trusted the first server trust this one.
		now, err := os.ReadFile(p.kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := authorityOf(t, kubeconfig), authorityOf(t, now); a != b {
			t.Error("the certificate authority is another one")
		}
	}
}

func authorityOf(t *testing.T, kubeconfig []byte) string {
	t.Helper()
	_, rest, ok := strings.Cut(string(kubeconfig), "certificate-authority-data: ")
	if !ok {
		t.Fatalf("no authority in %s", kubeconfig)
	}
	data, _, _ := strings.Cut(rest, "\n")
	return data
}

// A database in use is not changed, and an incomplete backup is not restored; both errors are found before anything is written.
func TestRestoreRefusals(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, empty places) {
		used, target := empty(t), empty(t)
		start(t, used.args()...).end()
		file := filepath.Join(t.TempDir(), "backup")
		runs(t, append([]string{"backup", file}, used.args()...)...)
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		refused := func(name, want string, data []byte, place storePlace) {
			t.Helper()
			if err := os.WriteFile(file, data, 0o600); err != nil {
				t.Fatal(err)
			}
			code, _, stderr := command(t, append([]string{"restore", file}, place.args()...)...)
			if code != exitFailure || !strings.Contains(stderr, want) {
				t.Errorf("%s: exit code %d, %s", name, code, stderr)
			}
			if _, err := os.Stat(target.dir); err == nil {
				t.Errorf("%s: the data directory was made", name)
			}
		}
		refused("a store that is there", "there is a store already", data, used)
		refused("the same database with another directory", "there is a store already", data, storePlace{filepath.Join(t.TempDir(), "x"), withDatabase(used)})
		refused("cut off", "damaged", data[:len(data)/2], target)
		changed := bytes.Clone(data)
		for i := range 16 { // a single bit of compressed data may be one that changes nothing
			changed[len(data)/2+i] ^= 0xff
		}
		refused("changed", "damaged", changed, target)
		inUse, other := t.TempDir(), t.TempDir()
		if err := os.WriteFile(filepath.Join(inUse, "notes"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		refused("a directory that is not empty", "the directory "+inUse+" has notes", data, storePlace{inUse, target.flags})
		refused("a directory in the place of the database", "there is a store already: "+other, data, storePlace{filepath.Join(t.TempDir(), "x"), []string{"--datastore", "sqlite://" + other}})
		refused("a database that does not answer", "refused", data, storePlace{filepath.Join(t.TempDir(), "x"), []string{"--datastore", "postgres://root@127.0.0.1:1/x"}})
		sealed := filepath.Join(t.TempDir(), "sealed")
		runs(t, append([]string{"backup", sealed, "--passphrase-file", passphrase(t, "a")}, used.args()...)...)
		encrypted, err := os.ReadFile(sealed)
		if err != nil {
			t.Fatal(err)
		}
		refused("no passphrase", "passphrase", encrypted, target)
		refused("another passphrase", "passphrase", encrypted, storePlace{target.dir, append(slices.Clone(target.flags), "--passphrase-file", passphrase(t, "b"))})
		refused("no backup", "not a backup", []byte("{}"), target)
		refused("a database with the columns of a later version", "later", later(t, data), storePlace{filepath.Join(t.TempDir(), "y"), target.flags})
	})
}

// withDatabase returns the flag for the database of a place with any data directory.
func withDatabase(s storePlace) []string {
	if s.flags != nil {
		return s.flags
	}
	return []string{"--datastore", "sqlite://" + filepath.Join(s.dir, "rowlock.db")}
}

// passphrase returns a file with a passphrase.
func passphrase(t *testing.T, is string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "passphrase")
	if err := os.WriteFile(file, []byte(is), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// later returns a backup as a later version of the tables would have it.
func later(t *testing.T, data []byte) []byte {
	t.Helper()
	return rewritten(t, data, func(columns []string) []string { return append(columns, "later") },
		func(row []any) []any { return append(row, int64(7)) })
}

// The server makes backups, keeps a number of them, has a metric with the time of the last, and continues when one fails.
func TestServerKeepsBackups(t *testing.T) {
	dir, backups := t.TempDir(), filepath.Join(t.TempDir(), "backups")
	p := start(t, "--data-dir", dir, "--backup-dir", backups, "--backup-every", "1s", "--backup-keep", "2")
	client := p.client(t)
	metric := func(name string) (value float64) {
		t.Helper()
		body := send(t, client, "GET", "/metrics", "")
		_, rest, ok := strings.Cut(body, "\n"+name+" ")
		if !ok {
			t.Fatalf("no metric %s", name)
		}
		if err := json.Unmarshal([]byte(strings.SplitN(rest, "\n", 2)[0]), &value); err != nil {
			t.Fatal(err)
		}
		return value
	}
	names := func() []string {
		entries, err := os.ReadDir(backups)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		var whole []string
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), ".") {
				whole = append(whole, e.Name())
			}
		}
		return whole
	}
	wait := func(what string, until func() bool) {
		t.Helper()
		for limit := time.Now().Add(time.Minute); !until(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatalf("%s: there is %v", what, names())
			}
		}
	}
	var first string
	wait("the first backup", func() bool {
		if n := names(); len(n) > 0 {
			first = n[0]
		}
		return first != ""
	})
	wait("the first one is removed", func() bool { return len(names()) >= 2 && names()[0] != first })
	if n := len(names()); n > 3 { // one is new and has not removed another yet
		t.Errorf("%d backups", n)
	}
	if metric("rowlock_backup_last_success_timestamp_seconds") == 0 || metric("rowlock_backup_last_bytes") == 0 {
		t.Error("the metrics say nothing of the last backup")
	}
	if err := os.RemoveAll(backups); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(backups, nil, 0o600); err != nil { // in place of the directory
		t.Fatal(err)
	}
	wait("a failure is counted", func() bool { return metric("rowlock_backup_failures_total") > 0 })
	if err := os.Remove(backups); err != nil {
		t.Fatal(err)
	}
	wait("it goes on afterwards", func() bool { return len(names()) > 0 })
	last := filepath.Join(backups, names()[len(names())-1])
	if code := p.end(); code != 0 || !strings.Contains(p.stderr.String(), "the backup failed") {
		t.Errorf("exit code %d, log %s", code, p.stderr.String())
	}
	if _, err := os.Stat(last); err == nil { // it may have been removed meanwhile
		runs(t, "restore", last, "--data-dir", filepath.Join(t.TempDir(), "restored"))
	}
}
