package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/sqlstore/recording"
)

var _ resources.Historian = (*Store)(nil)

// RecordedAt returns the revision that the object history has come to.
func (s *Store) RecordedAt(ctx context.Context) (int64, error) {
	state, err := s.recordingState(ctx)
	return state.revision, err
}

func (s *Store) recordingState(ctx context.Context) (state recordingState, err error) {
	err = s.db.eachFollowed(ctx, state.scan, selectRecordingSQL)
	return state, err
}

const (
	// recordedReads is how many connections read recorded writes. It leaves some connections for other reads.
	recordedReads = 2
	// recordedRows is how many recorded writes a statement returns: Postgres sends all of them, however few are read.
	recordedRows = 512
	// recordedBytes bounds the bytes of recorded writes in an answer; the write that exceeds it is the last one.
	recordedBytes = 8 << 20
)

// ObjectHistory returns recorded writes, the last ones first, and whether there are more than the limit of the query or
// recordedBytes allow. It reads the database; RecordHistory brings that up to date. It does not query for keys that no
// commit can write (see database.history). It waits while recordedReads other calls read. Errors:
// resources.ErrUnavailable; the context's.
func (s *Store) ObjectHistory(ctx context.Context, q resources.RevisionQuery) (revisions []resources.Revision, more bool, err error) {
	key, identity := resources.Key{Resource: q.Resource, Namespace: q.Namespace, Name: q.Name}, resources.Key{Name: q.UID}
	if len(key.Storable()) > 0 || len(identity.Storable()) > 0 {
		return nil, false, ctx.Err()
	}
	select {
	case s.recorder.reads <- struct{}{}:
		defer func() { <-s.recorder.reads }()
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	revisions, more, err = s.readRevisions(ctx, q)
	if err == nil && q.Objects && !s.recorder.options.SecretValues {
		err = s.hideValues(ctx, revisions)
	}
	return revisions, more, err
}

// readRevisions reads the answer of ObjectHistory, recordedRows at a time.
func (s *Store) readRevisions(ctx context.Context, q resources.RevisionQuery) (revisions []resources.Revision, more bool, err error) {
	var failing time.Duration
	limit, bytes := q.Limit, 0
	for {
		q.Limit = recordedRows
		if limit > 0 {
			q.Limit = min(q.Limit, limit-len(revisions)+1) // one more shows whether there are more
		}
		statement, args := selectRevisions(q)
		rows := 0
		err = s.db.eachFollowed(ctx, func(scan func(...any) error) error {
			if more = len(revisions) > 0 && (len(revisions) == limit || bytes >= recordedBytes); more {
				return errStop
			}
			r, err := s.scanRevision(ctx, scan, q.Objects, &failing)
			revisions = append(revisions, r)
			rows++
			bytes += revisionBytes(&r)
			return err
		}, statement, args...)
		if err != nil || more || rows < q.Limit {
			return revisions, more, err
		}
		q.Before = revisions[len(revisions)-1].Revision
	}
}

// revisionBytes is about how many bytes the parts of a recorded write have whose length nothing else bounds.
func revisionBytes(r *resources.Revision) int {
	bytes := len(r.Before) + len(r.After) + len(r.Author.User) + len(r.Author.As) + len(r.Author.Agent)
	for _, path := range r.Fields {
		bytes += len(path)
	}
	return bytes
}

// hideValues hides the values of Secrets that were recorded while they were kept (ObjectHistory.SecretValues).
func (s *Store) hideValues(ctx context.Context, revisions []resources.Revision) (err error) {
	var state recordingState
	for i := range revisions {
		r := &revisions[i]
		if r.Key.Resource != recording.Secrets || r.Unreadable {
			continue
		}
		if state.secret == nil {
			if state, err = s.recordingState(ctx); err != nil {
				return err
			}
			state.completeSecret()
		}
		for _, data := range []*[]byte{&r.Before, &r.After} {
			if *data != nil {
				*data = recording.HideValues(state.secret, r.Key.String(), *data)
				r.Unreadable = r.Unreadable || *data == nil
			}
		}
	}
	return nil
}

// selectRevisions returns the statement for a query. It has only the conditions of the query, so that the database can
// choose an index.
func selectRevisions(q resources.RevisionQuery) (statement string, args []any) {
	var where []string
	term := func(text string, value any) {
		args = append(args, value)
		where = append(where, text+" $"+strconv.Itoa(len(args)))
	}
	for _, t := range []struct{ column, value string }{{"resource", q.Resource}, {"namespace", q.Namespace}, {"name", q.Name}, {"uid", q.UID}} {
		if t.value != "" {
			term(t.column+" =", t.value)
		}
	}
	if q.Clustered {
		term("namespace =", "")
	}
	if q.Revision > 0 {
		term("revision =", q.Revision)
	}
	if q.Before > 0 {
		term("revision <", q.Before)
	}
	if q.Deleted {
		where = append(where, "op = 'delete'")
	}
	if statement = selectRevisionsAloneSQL; q.Objects {
		statement = selectRevisionsSQL
	}
	if len(where) > 0 {
		statement += " WHERE " + strings.Join(where, " AND ")
	}
	statement += " ORDER BY revision DESC"
	if q.Limit > 0 {
		args = append(args, q.Limit)
		statement += " LIMIT $" + strconv.Itoa(len(args))
	}
	return statement, args
}

func (s *Store) scanRevision(ctx context.Context, scan func(...any) error, objects bool, failing *time.Duration) (r resources.Revision, err error) {
	var row revisionRow
	if err := row.scan(scan); err != nil {
		return r, unavailable(err)
	}
	r.Revision, r.At, r.Key, r.UID = row.revision, milliseconds(row.at), row.key, row.uid
	var aerr error
	r.Op, err = parseOp(row.op)
	r.Author, aerr = decodeAuthor(row.author)
	if err := errors.Join(err, aerr); err != nil {
		return r, err
	}
	data, fields := row.data, row.fields
	if row.length == 0 {
		r.Unreadable = true
		return r, nil
	}
	if kept := (sealed{text(data), fields}); s.sealer.opens(kept.data) {
		if data, fields, err = s.sealer.openMany(ctx, r.Key, kept, failing); err != nil {
			if ctx.Err() != nil {
				return r, ctx.Err()
			}
			r.Unreadable = true // the other revisions are to be returned
			return r, nil
		}
	}
	if err := json.Unmarshal([]byte(fields.String), &r.Fields); err != nil {
		return r, fmt.Errorf("revisions.fields of %d: %w", r.Revision, err)
	}
	if !objects {
		return r, nil
	}
	r.Before, r.After, err = recording.Unpack(data, row.about(fields.String))
	if err != nil {
		return r, fmt.Errorf("revision %d of %s: %w", r.Revision, r.Key, err)
	}
	return r, nil
}
