package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/rowlock/rowlock/migrations"
	"github.com/rowlock/rowlock/sqlstore"
	"github.com/rowlock/rowlock/sqlstore/archive"
)

// Checked is the content of a backup that was read to its end. Its Beyond is at least the revision of each object, even
// if the store's counter was behind that.
type Checked struct {
	archive.Header
	Objects, Files int
	// Shared: the rows include the keys that the servers of a database share.
	Shared bool
	// Unsound counts the objects that a server cannot read, as they were in the store; FirstUnsound says which the first one is, and why.
	Unsound      int
	FirstUnsound string
}

// Check reads a backup to its end. It also refuses a readable backup from which no working store can be made: the
// checksum shows that a file is as it was written, but not by whom. Objects that were damaged in the store are counted;
// decode, which may be nil, returns what else is wrong with one. Errors: those of archive; an error for content that this
// rowlock does not know; that of ctx.
func Check(ctx context.Context, r io.Reader, passphrase []byte, decode func(sqlstore.Row) error) (*Checked, error) {
	a, err := archive.NewReader(r, passphrase)
	if err != nil {
		return nil, err
	}
	c := &Checked{Header: a.Header()}
	if err := checkHeader(&c.Header); err != nil {
		return nil, err
	}
	var table archive.Table
	revision, resource := -1, -1 // the numbers of these columns
	for {
		record, err := a.Next()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, io.EOF):
			c.Objects, c.Files = a.Rows("objects"), a.Files()
			return c, nil
		case err != nil:
			return nil, err
		case record.Table != nil:
			table = *record.Table
			revision, resource = slices.Index(table.Columns, "revision"), slices.Index(table.Columns, "resource")
		case record.Row != nil && revision >= 0:
			n, ok := record.Row[revision].(int64)
			if !ok || n < 0 || n > sqlstore.RevisionMax {
				return nil, fmt.Errorf("%w: a row has the revision %v", archive.ErrDamaged, record.Row[revision])
			}
			c.Beyond = max(c.Beyond, n)
			c.Shared = c.Shared || resource >= 0 && record.Row[resource] == authorities
			if table.Name == "objects" {
				c.object(RowOf(table.Columns, record.Row), decode)
			}
		}
	}
}

func (c *Checked) object(r sqlstore.Row, decode func(sqlstore.Row) error) {
	err := r.Check(decode)
	if err == nil {
		return
	}
	if c.Unsound++; c.Unsound == 1 {
		c.FirstUnsound = fmt.Sprintf("%s: %v", r.Key, err)
	}
}

// RowOf returns a row of the table objects, without its lifetime.
func RowOf(columns []string, values []any) (r sqlstore.Row) {
	for i, name := range columns {
		switch text, isText := values[i].(string); name {
		case "resource":
			r.Resource = text
		case "namespace":
			r.Namespace = text
		case "name":
			r.Name = text
		case "data":
			r.Data = text
		case "fields":
			if isText {
				r.Fields = &text
			}
		case "revision":
			r.Revision, _ = values[i].(int64)
		}
	}
	return r
}

// checkHeader refuses revisions above which no counter can go on, and unknown kinds of databases and versions of
// tables. As with databases, tables that are one version ahead are accepted.
func checkHeader(h *archive.Header) error {
	if h.Beyond > sqlstore.RevisionMax { // Revision is never above Beyond
		return fmt.Errorf("%w: its header has revision %d, above which no store can go on", archive.ErrDamaged, h.Beyond)
	}
	known, err := migrations.Known(h.Database)
	if err != nil {
		return fmt.Errorf("the backup is of a database %q, which this rowlock does not know: use a newer one", h.Database)
	}
	if h.Schema < 1 || h.Schema > known+1 {
		return fmt.Errorf("the backup is of tables of version %d, and this rowlock takes versions up to %d: use a newer one", h.Schema, known+1)
	}
	return nil
}
