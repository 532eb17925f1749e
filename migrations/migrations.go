package migrations

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/golang-migrate/migrate/v4/source"
	"github.com/golang-migrate/migrate/v4/source/iofs"
)

//go:embed sqlite/*.sql postgres/*.sql
var files embed.FS

// DirtyError says that a migration of an earlier release was begun and not finished, and that the tables do not show
// how far it came.
type DirtyError struct{ Version int }

func (e *DirtyError) Error() string {
	return fmt.Sprintf("migration %d of the database failed half-way: restore the database from a backup, or repair the "+
		"tables by hand and then run UPDATE schema_migrations SET dirty = false", e.Version)
}

// NewerError says that a newer Rowlock migrated the database to a schema more than one version ahead of this one.
type NewerError struct{ Version, Known int }

func (e *NewerError) Error() string {
	return fmt.Sprintf("the database has schema version %d and this rowlock knows versions up to %d, and works with the next one: "+
		"run a newer rowlock, or restore a backup that was made before the upgrade", e.Version, e.Known)
}

// up runs the missing steps. A schema that is one version ahead is left as it is and used: a step only adds things that
// servers of the previous version can do without, so they go on, and may be restarted, while others already have the
// next version. What such a step makes superfluous is removed by the step after it, at the earliest.
func up(files fs.FS, dir string, d driver) error {
	src, err := iofs.New(files, dir)
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	known, err := last(src)
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	version, dirty, err := d.version()
	switch {
	case err != nil:
		return fmt.Errorf("read the schema version: %w", err)
	case dirty:
		return &DirtyError{Version: version}
	case version > known+1:
		return &NewerError{Version: version, Known: known}
	case version >= known:
		return nil
	}
	if err := d.upTo(src, version, known); err != nil {
		return fmt.Errorf("migrate the database: %w", err)
	}
	return nil
}

// Known returns the highest version of the tables that this program knows, for "sqlite" or "postgres".
func Known(database string) (int, error) {
	src, err := iofs.New(files, database)
	if err != nil {
		return 0, err
	}
	return last(src)
}

// last returns the highest version that the binary knows.
func last(src source.Driver) (int, error) {
	v, err := src.First()
	if err != nil {
		return 0, err
	}
	for {
		next, err := src.Next(v)
		if errors.Is(err, fs.ErrNotExist) {
			return int(v), nil
		}
		if err != nil {
			return 0, err
		}
		v = next
	}
}
