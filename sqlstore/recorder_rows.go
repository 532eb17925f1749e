package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tidwall/gjson"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/sqlstore/recording"
)

// revisionRow is a row of revisions.
type revisionRow struct {
	key                resources.Key
	revision, at, size int64
	op, uid            string
	author, fields     sql.NullString
	data               []byte
	length             int // of the data in the database
}

func (r *revisionRow) args() []any {
	return []any{r.revision, r.at, r.size, r.op, r.key.Resource, r.key.Namespace, r.key.Name, r.uid, textOrNull(r.author), textOrNull(r.fields), r.data}
}

// selectRevisionsSQL selects the columns that scan reads. selectRevisionsAloneSQL leaves out the objects: only a row
// whose paths are encrypted, with its object, has data.
const (
	selectRevisionsSQL      = revisionHeadSQL + `data` + revisionTailSQL
	selectRevisionsAloneSQL = revisionHeadSQL + `CASE WHEN fields IS NULL THEN data END` + revisionTailSQL

	revisionHeadSQL = `SELECT revision, at, size, op, resource, namespace, name, uid, author, fields, length(data), `
	revisionTailSQL = ` FROM revisions`
)

func (r *revisionRow) scan(scan func(...any) error) error {
	return scan(&r.revision, &r.at, &r.size, &r.op, &r.key.Resource, &r.key.Namespace, &r.key.Name, &r.uid, &r.author, &r.fields, &r.length, &r.data)
}

// about returns the row's values besides the object, which the checksum covers, too. In the row, the changed paths may
// be encrypted.
func (r *revisionRow) about(paths string) []byte {
	return fmt.Appendf(nil, "%d %d %q %q %q %q %q %q %q", r.revision, r.at, r.op, r.key.Resource, r.key.Namespace, r.key.Name, r.uid, r.author.String, paths)
}

// rowBytes is how many bytes a row takes besides its variable-length values, including its places in indexes.
const rowBytes = 160

// partsOfSize bounds a write with its object to one part in so many of the history's size. The oldest writes are
// removed first, so a write as large as the whole history would displace all others.
const partsOfSize = 4

var errTooLarge = errors.New("it is too large for the size of the object history")

// errNoSecret says that a Secret does not have a Secret's members.
var errNoSecret = errors.New("it has not the members of a Secret")

// changes reads the next changes and makes rows of those that are to be kept.
func (s *recordingStep) changes(ctx context.Context, c sqlConn) error {
	bytes := int64(0)
	err := eachRow(c.QueryContext(ctx, selectUnrecordedSQL, s.upTo, recordStep, recordBytes))(func(scan func(...any) error) error {
		var revision, at, size sql.NullInt64
		var op, resource, namespace, name, data, prev sql.NullString
		row := revisionRow{}
		if err := scan(&s.floor, &revision, &at, &size, &op, &resource, &namespace, &name, &row.author, &data, &prev); err != nil {
			return unavailable(err)
		}
		if !revision.Valid {
			return nil
		}
		s.read++
		s.upTo = revision.Int64
		s.result.behind = s.store.clock.Since(milliseconds(at.Int64))
		if bytes += size.Int64; bytes >= recordBytes { // as the statement counts
			s.result.more = true
		}
		if !data.Valid {
			return nil
		}
		row.key = resources.Key{Resource: resource.String, Namespace: namespace.String, Name: name.String}
		row.revision, row.at, row.op = revision.Int64, at.Int64, op.String
		if s.fill(ctx, &row, data.String, prev) {
			s.rows = append(s.rows, row)
		}
		return nil
	})
	if from := max(s.was.revision, s.seen); from != 0 && s.floor > from {
		s.missed()
	}
	s.upTo = max(s.upTo, s.floor)
	return err
}

// missed reports that changes were pruned before they were recorded.
func (s *recordingStep) missed() {
	s.metrics.gaps.Inc()
	s.store.logger.Warn("the object history lacks what was written between two revisions: the log of changes was pruned first, "+
		"for its size, by a server without an object history, or since the counter of revisions jumped", "after", max(s.was.revision, s.seen), "up to", s.floor)
}

// fill makes a row of a change, and reports whether it is to be kept. A change whose object cannot be decrypted or
// encrypted, or is too large, is kept without the object: the write and its author are recorded.
func (s *recordingStep) fill(ctx context.Context, row *revisionRow, data string, prev sql.NullString) bool {
	after, err := s.state(ctx, row, data)
	var before []byte
	if err == nil && prev.Valid {
		before, err = s.state(ctx, row, prev.String)
	}
	if err != nil {
		s.without(row, err)
		return true
	}
	changes := recording.Changes{Paths: []string{}}
	if before != nil {
		changes = recording.Changed(before, after)
	}
	switch {
	case changes.Heartbeat:
		return false
	case before != nil && len(changes.Paths) == 0:
		changes.Paths = append(changes.Paths, "metadata.managedFields")
	}
	row.uid = gjson.Get(text(after), "metadata.uid").String()
	err = s.pack(ctx, row, changes.Paths, before, after)
	if errors.Is(err, errTooLarge) && before != nil { // so the small state after the write can be restored, however large the object was before
		err = s.pack(ctx, row, changes.Paths, nil, after)
	}
	if err != nil {
		s.without(row, err)
	}
	return true
}

// pack puts the object's states of a write into its row. Errors: errTooLarge; the object cannot be encrypted.
func (s *recordingStep) pack(ctx context.Context, row *revisionRow, changed []string, before, after []byte) error {
	paths, err := json.Marshal(changed)
	if err != nil {
		return err
	}
	kept, err := s.store.sealer.seal(ctx, row.key, s.packer.Pack(before, after, row.about(text(paths))), sql.NullString{String: text(paths), Valid: true})
	if err != nil {
		return err
	}
	row.data, row.fields = bytesOf(kept.data), kept.fields
	if s.measure(row); row.size > s.options.Size/partsOfSize {
		return fmt.Errorf("%w: it takes %d bytes of %d", errTooLarge, row.size, s.options.Size)
	}
	return nil
}

func (s *recordingStep) without(row *revisionRow, err error) {
	s.metrics.incomplete.Inc()
	if !s.hinted {
		s.hinted = true
		s.store.logger.Warn("a write is in the object history without its object, and others may be", "key", row.key.String(), "error", err)
	}
	row.data, row.fields = []byte{}, sql.NullString{}
	s.measure(row)
}

func (s *recordingStep) measure(row *revisionRow) {
	row.size = int64(rowBytes + len(row.data) + len(row.fields.String) + len(row.author.String) + 2*len(row.key.Namespace+row.key.Name))
}

// state returns an object in the form that is kept.
func (s *recordingStep) state(ctx context.Context, row *revisionRow, data string) ([]byte, error) {
	plain := bytesOf(data)
	if s.store.sealer.opens(data) {
		bounded, cancel := context.WithTimeout(ctx, openWithin)
		defer cancel()
		var err error
		if plain, _, err = s.store.sealer.openMany(bounded, row.key, sealed{data: data}, &s.failing); err != nil {
			return nil, err
		}
	}
	o := resources.LoadObject(row.key, row.revision, plain, nil, nil)
	kept := recording.Strip(o.Data)
	if row.key.Resource == recording.Secrets && !s.options.SecretValues {
		if kept = recording.HideValues(s.was.secret, row.key.String(), kept); kept == nil {
			return nil, errNoSecret
		}
	}
	return kept, nil
}
