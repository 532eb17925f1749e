package backup

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rowlock/rowlock/resources/files"
	"github.com/rowlock/rowlock/sqlstore"
	"github.com/rowlock/rowlock/sqlstore/archive"
)

// Destination is where a backup is restored.
type Destination struct {
	// Store is an empty database: of its options, URL, Schema and Clock are used.
	Store sqlstore.Options
	// DataDir is an empty directory, which is created if needed.
	DataDir    string
	Passphrase []byte
	// Decode returns an error if an object that can be read is invalid for its type. Optional.
	Decode func(sqlstore.Row) error
}

// Restored is the result of Restore.
type Restored struct {
	Checked
	// Counter is the revision at which the store begins.
	Counter int64
}

// HasKeys reports whether the store has the keys of its cluster, in files or in the database.
func (r *Restored) HasKeys() bool { return r.Files > 0 || r.Shared }

// Unfinished is the file of a data directory that Restore has begun to fill and not finished.
const Unfinished = "restore.unfinished"

// mark is its content: which backup is being restored, and where the counter of the database begins, once the database
// has its content.
type mark struct {
	Created  string `json:"created"`
	Revision int64  `json:"revision"`
	Counter  int64  `json:"counter"`
}

// ErrUnfinished says that a server cannot start in a data directory.
var ErrUnfinished = errors.New("a restore of a backup was begun here and did not end: run it again, or remove what is there")

// CheckFinished returns ErrUnfinished if a Restore was begun and did not end.
func CheckFinished(dataDir string) error {
	_, err := os.Lstat(filepath.Join(dataDir, Unfinished))
	switch {
	case err == nil:
		return fmt.Errorf("%s: %w", dataDir, ErrUnfinished)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}

// Restore reads a backup, twice, and restores its store. Errors: those of Check; sqlstore.ErrNotEmpty if the
// destination is not empty; those of the database and the file system.
func Restore(ctx context.Context, from io.ReadSeeker, to Destination) (r Restored, err error) {
	checked, err := Check(ctx, from, to.Passphrase, to.Decode)
	if err != nil {
		return r, err
	}
	r.Checked = *checked
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return r, err
	}
	begun, err := to.begun()
	if err != nil {
		return r, err
	}
	m := mark{Created: r.Created.String(), Revision: r.Revision}
	if begun == nil {
		if err := to.checkEmpty(ctx); err != nil {
			return r, err
		}
	} else if done, err := to.hasContent(ctx, begun); err != nil || done {
		if done && (begun.Created != m.Created || begun.Revision != m.Revision) {
			return r, fmt.Errorf("%w: %s has what another backup was made of, of revision %d", sqlstore.ErrNotEmpty, to.DataDir, begun.Revision)
		}
		r.Counter = begun.Counter
		return r, errors.Join(err, to.finish(done))
	} else if err := sqlstore.CheckTarget(ctx, to.Store); err != nil {
		return r, err
	} else if err := os.RemoveAll(filepath.Join(to.DataDir, keptDir)); err != nil { // of the earlier attempt, perhaps with another backup
		return r, err
	}
	if err := files.MakeDir(to.DataDir); err != nil {
		return r, err
	}
	if err := to.mark(m); err != nil {
		return r, err
	}
	if err := to.fill(ctx, from, m, &r); err != nil {
		return r, err
	}
	return r, to.finish(true)
}

func (d *Destination) begun() (*mark, error) {
	data, err := os.ReadFile(filepath.Join(d.DataDir, Unfinished))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	m := &mark{}
	if err == nil {
		err = json.Unmarshal(data, m)
	}
	return m, err
}

// checkEmpty refuses a data directory or a database that is or was in use.
func (d *Destination) checkEmpty(ctx context.Context) error {
	entries, err := os.ReadDir(d.DataDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, entry := range entries {
		switch name := entry.Name(); {
		case name == "lost+found",
			name == Unfinished+partial, // of a restore that was killed while it wrote its mark
			strings.HasSuffix(name, ".lock"), strings.HasPrefix(name, files.Tried):
		default:
			return fmt.Errorf("%w: the directory %s has %s. Give an empty one, or move what is there away", sqlstore.ErrNotEmpty, d.DataDir, name)
		}
	}
	return sqlstore.CheckTarget(ctx, d.Store)
}

// hasContent reports whether the database got its content from an attempt that ended right after that.
func (d *Destination) hasContent(ctx context.Context, m *mark) (bool, error) {
	source, err := sqlstore.OpenSource(ctx, d.Store)
	if errors.Is(err, sqlstore.ErrNoTables) || errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	// No counter gets there by counting: a restore takes it from the clock.
	return m.Counter > 0 && source.State().Revision >= m.Counter, source.Close()
}

// mark writes the mark, which is flushed before anything else is written.
func (d *Destination) mark(m mark) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return d.write(Unfinished, data, 0o600)
}

// write replaces a file of the data directory in one step, and flushes it.
func (d *Destination) write(name string, data []byte, mode fs.FileMode) error {
	path := filepath.Join(d.DataDir, filepath.FromSlash(name))
	if err := files.MakeDir(filepath.Dir(path)); err != nil {
		return err
	}
	f, err := files.Open(path + partial)
	if err != nil {
		return err
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Chmod(mode)
	}
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+partial, path); err != nil {
		return err
	}
	return files.Sync(filepath.Dir(path))
}

// fill writes the files and then the database.
func (d *Destination) fill(ctx context.Context, from io.Reader, m mark, r *Restored) (err error) {
	a, err := archive.NewReader(bufio.NewReaderSize(from, 1<<20), d.Passphrase)
	if err != nil {
		return err
	}
	target, err := sqlstore.OpenTarget(ctx, d.Store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	if err := d.fillFrom(ctx, a, target); err != nil {
		return err
	}
	r.Counter, err = target.Finish(ctx, r.Beyond, func(counter int64) error {
		m.Counter = counter
		return d.mark(m)
	})
	return err
}

func (d *Destination) fillFrom(ctx context.Context, a *archive.Reader, target *sqlstore.Target) error {
	record, err := a.Next()
	for {
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case record.File != nil:
			if err := d.file(record.File); err != nil {
				return err
			}
			record, err = a.Next()
		case record.Table != nil:
			table := record.Table
			err = target.Table(ctx, table.Name, table.Columns, func() ([]any, error) {
				if record, err = a.Next(); err != nil {
					return nil, err
				}
				if record.Row == nil {
					return nil, io.EOF
				}
				return record.Row, nil
			})
			if err != nil {
				return err
			}
			if a.Ended() {
				return nil
			}
		default:
			return fmt.Errorf("%w: a row of no table", archive.ErrDamaged)
		}
	}
}

// file writes a file of the backup, which may come from anywhere: nobody else may write it, and others may read it only
// if they could in the backup and it is not a key.
func (d *Destination) file(f *archive.File) error {
	if name := filepath.FromSlash(f.Name); !filepath.IsLocal(name) || filepath.Clean(name) != name || !strings.HasPrefix(f.Name, keptDir+"/") {
		return fmt.Errorf("the backup has a file %q, which does not belong into a data directory", f.Name)
	}
	mode := 0o600 | f.Mode&0o044
	if strings.HasSuffix(f.Name, ".key") || bytes.Contains(f.Data, []byte("PRIVATE KEY-----")) {
		mode = 0o600
	}
	return d.write(f.Name, f.Data, mode)
}

// finish removes the mark: a server may start.
func (d *Destination) finish(done bool) error {
	if !done {
		return nil
	}
	if err := os.Remove(filepath.Join(d.DataDir, Unfinished)); err != nil {
		return err
	}
	return files.Sync(d.DataDir)
}
