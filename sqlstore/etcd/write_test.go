package etcd

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A snapshot gets its name when it is complete, and never replaces a file that was created meanwhile. An unfinished one
// has no name if the system has files without a name, so that a killed process leaves nothing; if such files cannot be
// named later, it has a temporary name.
func TestNameOfSnapshot(t *testing.T) {
	named := func(string) (*os.File, string) { return nil, "" }
	never := func(path, as string) error { return &os.LinkError{Op: "link", Old: path, New: as, Err: syscall.EPERM} }
	onlyNamed := func(path, as string) error {
		if filepath.Base(filepath.Dir(path)) == "fd" {
			return never(path, as)
		}
		return giveName(path, as)
	}
	for kind, by := range map[string]naming{
		"of this system":                     {unnamed, giveName},
		"with a name":                        {named, giveName},
		"without a name, and none to be had": {unnamed, onlyNamed},
		"without second names":               {unnamed, never},
	} {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			names := func() []string {
				var names []string
				all, err := os.ReadDir(dir)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range all {
					names = append(names, e.Name())
				}
				return names
			}
			begin := func() *Writer {
				w, err := create(filepath.Join(dir, "snapshot"), by)
				if err != nil {
					t.Fatal(err)
				}
				if err := w.Put(Entry{Key: "/registry/a", Value: []byte("a"), Revision: 3}); err != nil {
					t.Fatal(err)
				}
				return w
			}

			late := begin()
			if have := names(); late.held != nil && len(have) != 0 {
				t.Errorf("before it is whole there is %v", have)
			}
			w := begin()
			if err := w.Finish(7); err != nil {
				t.Fatal(err)
			}
			first, err := os.ReadFile(filepath.Join(dir, "snapshot"))
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(w.Close(), w.Close()); err != nil {
				t.Error(err)
			}
			if err := late.Finish(8); !errors.Is(err, fs.ErrExist) {
				t.Errorf("over a file that has come meanwhile: %v", err)
			}
			if err := late.Close(); err != nil {
				t.Error(err)
			}
			if again, err := os.ReadFile(filepath.Join(dir, "snapshot")); err != nil || string(again) != string(first) {
				t.Errorf("the file that was there is another: %v", err)
			}
			if have := names(); len(have) != 1 || have[0] != "snapshot" {
				t.Errorf("there is %v", have)
			}
			info, err := os.Stat(filepath.Join(dir, "snapshot"))
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("its mode is %v, %v", info.Mode(), err)
			}
			s, err := Open(t.Context(), filepath.Join(dir, "snapshot"))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
