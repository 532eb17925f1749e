package backup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rowlock/rowlock/resources/files"
	"github.com/rowlock/rowlock/sqlstore"
	"github.com/rowlock/rowlock/sqlstore/archive"
)

// Origin is what a backup is made of.
type Origin struct {
	// Store is the database: of its options, URL, RereadURL, Schema and Logger are used.
	Store sqlstore.Options
	// DataDir is the data directory, whose keys and certificates are part of the backup. It may be missing.
	DataDir string
	// Passphrase encrypts the backup; empty means that it is not encrypted.
	Passphrase []byte
	// Version is the version of the program; Now returns the time.
	Version string
	Now     func() time.Time
}

// Summary describes the content of a backup.
type Summary struct {
	Revision       int64
	Objects, Files int
	// Moved is where the store had moved to: the backup has its state before that. Empty: it had not moved.
	Moved string
	// Shared: the database has the keys that its servers share, which are in the backup without files.
	Shared bool
	// History: the store has an object history, which is not in the backup.
	History bool
	// Clear is how many objects are not encrypted by the store itself.
	Clear int
	// Secrets is the number of Secrets, and ClearSecrets how many of them are not encrypted by the store itself.
	Secrets, ClearSecrets int
	// ClearKeys: the database has keys that its servers share, and does not encrypt them.
	ClearKeys bool
}

// HasKeys reports whether the backup has the keys of its cluster, in files or in the database.
func (s *Summary) HasKeys() bool { return s.Files > 0 || s.Shared }

// count counts a row of objects.
func (s *Summary) count(columns []string, values []any) {
	s.Objects++
	text, _ := values[slices.Index(columns, "data")].(string)
	inClear := !(sqlstore.Row{Data: text}).IsEncrypted()
	if inClear {
		s.Clear++
	}
	switch values[slices.Index(columns, "resource")] {
	case "secrets":
		s.Secrets++
		if inClear {
			s.ClearSecrets++
		}
	case authorities, "tokenkeys.rowlock.internal":
		s.ClearKeys = s.ClearKeys || inClear
		s.Shared = s.Shared || values[slices.Index(columns, "resource")] == authorities
	}
}

// keptDir is the part of a data directory that a backup contains. The rest is the database, and files that are made
// again.
const keptDir = "pki"

// authorities is the resource of the certificate authorities that servers of one database share. A database that was
// filled by a migration or a restore has none before its first server has started.
const authorities = "authorities.rowlock.internal"

// fileMax bounds the size of a file of keys or certificates, in bytes.
const fileMax = 4 << 20

// Write writes a backup. Errors: those of sqlstore.OpenSource, of the file system and of w.
func Write(ctx context.Context, w io.Writer, o Origin) (s Summary, err error) {
	source, err := sqlstore.OpenSource(ctx, o.Store)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	state := source.State()
	a, err := archive.NewWriter(w, archive.Header{Created: o.Now().UTC(), Version: o.Version, Database: state.Kind, Schema: state.Version,
		Revision: state.Revision, Beyond: state.Beyond}, o.Passphrase)
	if err != nil {
		return s, err
	}
	s.Revision, s.Moved = state.Revision, state.Moved
	if s.History, err = source.HasHistory(ctx); err != nil {
		return s, err
	}
	if s.Files, err = writeFiles(a, o.DataDir); err != nil {
		return s, err
	}
	var columns []string
	err = source.Each(ctx, func(name string, of []string) error {
		columns = of
		return a.Table(archive.Table{Name: name, Columns: columns})
	}, func(values []any) error {
		s.count(columns, values)
		return a.Row(values)
	})
	if err != nil {
		return s, err
	}
	return s, a.Close()
}

// writeFiles adds the files that belong to the store.
func writeFiles(a *archive.Writer, dataDir string) (n int, err error) {
	root := filepath.Join(dataDir, keptDir)
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if path == root && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || entry.IsDir() || strings.HasPrefix(entry.Name(), ".") { // dot files are not finished yet
			return err
		}
		info, err := os.Stat(path) // of a link's target
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() || info.Size() > fileMax {
			return fmt.Errorf("%s is no file of a key or a certificate: move it elsewhere", path)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dataDir, path)
		if err != nil {
			return err
		}
		n++
		return a.File(archive.File{Name: filepath.ToSlash(name), Mode: info.Mode().Perm(), Data: data})
	})
	return n, err
}

// WriteFile writes a backup to a file that only its owner can read. The file gets its name when it is complete and
// flushed; an existing file is replaced then, if it is a backup. Errors: as of Write.
func WriteFile(ctx context.Context, path string, o Origin) (s Summary, err error) {
	if err := checkReplaced(path, o.Store.URL); err != nil {
		return s, err
	}
	info, err := os.Stat(path)
	switch {
	case err != nil: // it does not exist
		if to, err := os.Readlink(path); err == nil { // but a link to it does
			if !filepath.IsAbs(to) {
				to = filepath.Join(filepath.Dir(path), to)
			}
			path = to
		}
	case info.IsDir():
		return s, &fs.PathError{Op: "write", Path: path, Err: syscall.EISDIR}
	case !info.Mode().IsRegular():
		return writeThrough(ctx, path, o)
	default: // a link stays: its target is replaced
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return s, err
		}
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*"+partial)
	if err != nil {
		return s, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if err = files.Give(f); err == nil {
		buffered := bufio.NewWriterSize(f, 1<<20)
		if s, err = Write(ctx, buffered, o); err == nil {
			err = buffered.Flush()
		}
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return s, err
	}
	return s, files.Sync(filepath.Dir(path))
}

// writeThrough writes a backup into a pipe or a device, which must not be replaced by a regular file.
func writeThrough(ctx context.Context, path string, o Origin) (s Summary, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return s, err
	}
	buffered := bufio.NewWriterSize(f, 1<<20)
	if s, err = Write(ctx, buffered, o); err == nil {
		err = buffered.Flush()
	}
	return s, errors.Join(err, f.Close())
}

// checkReplaced refuses to overwrite the database, which may be named by mistake, and any other file that is not a
// backup.
func checkReplaced(path, database string) error {
	if file, ok := strings.CutPrefix(database, "sqlite://"); ok {
		rest, of := strings.CutPrefix(resolved(path), resolved(file))
		if of && slices.Contains([]string{"", "-wal", "-shm", "-journal", ".lock"}, rest) {
			return fmt.Errorf("%s is of the database that the backup is made of: name another file, which is to be the backup", path)
		}
	}
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return nil //nolint:nilerr // there is nothing to lose
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was only read
	if archive.CheckStart(bufio.NewReader(f)) != nil {
		return fmt.Errorf("%s is there, and no backup: remove it, or name another file", path)
	}
	return nil
}

// CheckPlace refuses a file or directory for backups among the files of the data directory that a backup contains: each
// backup would contain the previous ones.
func CheckPlace(path, dataDir string) error {
	kept := filepath.Join(dataDir, keptDir)
	if rel, err := filepath.Rel(resolved(kept), resolved(path)); err == nil && filepath.IsLocal(rel) {
		return fmt.Errorf("%s is in %s, of which all files are in each backup: take a place elsewhere", path, kept)
	}
	return nil
}

// resolved returns an absolute path without links. Its last parts need not exist.
func resolved(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	for dir, rest := path, ""; ; dir, rest = filepath.Dir(dir), filepath.Join(filepath.Base(dir), rest) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
		if dir == filepath.Dir(dir) {
			return path
		}
	}
}

// partial is the suffix of a file that is being written.
const partial = ".partial"
