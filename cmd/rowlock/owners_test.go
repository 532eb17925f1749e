package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/rowlock/rowlock/sqlstore/etcd/etcdtest"
)

// somebody and theirGroup are the owners of the data directories.
const somebody, theirGroup = 12345, 12346

// Files that root creates for a server of another user belong to the owner of the data directory, or of its parent if root creates the directory
// itself.
func TestOwnersOfFiles(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("root alone writes for another user, and this is user", os.Geteuid())
	}
	source := storePlace{dir: filepath.Join(t.TempDir(), "data")}
	start(t, source.args()...).end()
	keys, scratch := t.TempDir(), t.TempDir()
	file, snapshot := filepath.Join(scratch, "backup"), filepath.Join(scratch, "snapshot")
	runs(t, append([]string{"backup", file}, source.args()...)...)
	policy := filepath.Join(scratch, "policy")
	if err := os.WriteFile(policy, []byte(`{"apiVersion":"audit.k8s.io/v1","kind":"Policy","rules":[{"level":"Metadata"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	kubeadmPKI(t, keys)
	if err := etcdtest.Bolt(snapshot, etcdtest.Put{Key: "/registry/namespaces/default", Value: stored(t, &corev1.Namespace{ObjectMeta: importedMeta("", "default")})}); err != nil {
		t.Fatal(err)
	}
	database := func(dir string) string { return "sqlite://" + filepath.Join(dir, "rowlock.db") }
	for name, fill := range map[string]func(dir string){
		"restore": func(dir string) { runs(t, "restore", file, "--data-dir", dir) },
		"import":  func(dir string) { runs(t, "import", "--to", database(dir), "--pki", keys, "--data-dir", dir, snapshot) },
		"migrate": func(dir string) { runs(t, "migrate", "--from", database(source.dir), "--to", database(dir)) },
		"serve": func(dir string) {
			p := start(t, "--data-dir", dir, "--audit-policy-file", policy, "--audit-log-path", filepath.Join(dir, "audit", "log"))
			belongToThem(t, "while it runs", dir)
			p.end()
			runs(t, "keys", "add", "--data-dir", dir)
			runs(t, "token", "create", "--user", "jane", "--data-dir", dir)
		},
	} {
		for _, linked := range []bool{false, true} {
			if name == "migrate" && linked { // the source is already migrated
				continue
			}
			theirs := filepath.Join(t.TempDir(), "theirs")
			if err := errors.Join(os.Mkdir(theirs, 0o700), os.Chown(theirs, somebody, theirGroup)); err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(theirs, "data", "deep")
			if linked {
				link := filepath.Join(t.TempDir(), "link")
				if err := os.Symlink(dir, link); err != nil {
					t.Fatal(err)
				}
				dir = link
			}
			fill(dir)
			belongToThem(t, name, theirs)
			runs(t, "verify", "--data-dir", dir)
		}
	}
}

// belongToThem checks the owner of a directory and of everything in it.
func belongToThem(t *testing.T, name, dir string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if of := info.Sys().(*syscall.Stat_t); of.Uid != somebody || of.Gid != theirGroup { //nolint:forcetypeassert // of Unix
			t.Errorf("%s: %s belongs to %d, %d", name, path, of.Uid, of.Gid)
		}
		if entry.Type().IsRegular() {
			files++
		}
		return nil
	})
	if err != nil || files < 2 { // the database and its lock
		t.Errorf("%s: there are %d files, %v", name, files, err)
	}
}
