package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tidwall/gjson"

	"github.com/rowlock/rowlock/sqlstore/recording"
)

// The remedies for the object history, on which nothing else depends.
const (
	doRecording = "start a server with --object-history: it makes the row anew"
	doReached   = "stop the servers and say how far it has come: UPDATE recording SET revision = (SELECT coalesce(max(revision), 0) FROM revisions)"
	doCounted   = "stop the servers and count anew: UPDATE recording SET bytes = (SELECT coalesce(sum(size), 0) FROM revisions)"
)

// doWrite is the remedy for a single write of it, so that the others stay.
func doWrite(revision int64) string {
	return fmt.Sprintf("stop the servers and take this write out of the object history: DELETE FROM revisions WHERE revision = %d; "+
		"UPDATE recording SET bytes = (SELECT coalesce(sum(size), 0) FROM revisions)", revision)
}

// revisions checks the object history: each write by itself, and its recorded position. A step of the recorder is one
// transaction, so both agree after any crash.
func (v *verifier) revisions(ctx context.Context) error {
	for _, table := range []string{"revisions", "recording"} {
		if there, err := hasTable(ctx, v.tx, v.postgres, table); err != nil || !there {
			return err // earlier versions do not have them, and missing tables were reported already
		}
	}
	var state recordingState
	err := v.tx.QueryRowContext(ctx, selectRecordingSQL).Scan(&state.revision, &state.bytes, &state.secret)
	none := errors.Is(err, sql.ErrNoRows)
	if err != nil && !none {
		return err
	}
	last, sum, err := v.writes(ctx)
	switch {
	case err != nil:
		return err
	case none:
		v.found("recording", doRecording, "has no row, which says how far the object history has come")
	default:
		v.recording(&state, last, sum)
	}
	return nil
}

// writes checks each write in the object history. It returns the last revision of a sound one, and the sum of all
// sizes.
func (v *verifier) writes(ctx context.Context) (last, sum int64, err error) {
	rows, err := v.tx.QueryContext(ctx, selectRevisionsSQL+` ORDER BY revision`)
	if err != nil {
		return 0, 0, err
	}
	defer rows.Close() //nolint:errcheck // rows.Err reports the error
	for rows.Next() {
		var r revisionRow
		if err := r.scan(rows.Scan); err != nil {
			return 0, 0, err
		}
		v.result.Revisions++
		sum += r.size
		before := v.result.Findings
		if err := v.revision(ctx, &r); err != nil {
			return 0, 0, err
		}
		if v.result.Findings == before {
			last = r.revision
		}
	}
	return last, sum, rows.Err()
}

// recording compares the row of the table recording with the counter, the last revision, and the sum of the sizes.
func (v *verifier) recording(state *recordingState, last, sum int64) {
	counter := v.state.Revision
	if last > counter {
		v.found("revisions", doCopy, "has a write of revision %d, and the counter is at %d: revisions would be given twice", last, counter)
		return
	}
	if state.revision > counter {
		v.found("recording", doReached, "has come to revision %d, and the counter is at %d: what is written till then would not be kept", state.revision, counter)
	}
	if last > state.revision {
		v.found("recording", doReached, "has come to revision %d, and the object history to %d: nothing more would be kept", state.revision, last)
	}
	if state.bytes != sum {
		v.found("recording", doCounted, "counts %d bytes of object history, and there are %d", state.bytes, sum)
	}
}

// revision checks a write in the object history. Errors: those of ctx.
func (v *verifier) revision(ctx context.Context, r *revisionRow) error {
	where := fmt.Sprintf("revisions %d (%s)", r.revision, r.key)
	_, oerr := parseOp(r.op)
	_, aerr := decodeAuthor(r.author)
	if problem := errors.Join(oerr, aerr); problem != nil {
		v.found(where, doWrite(r.revision), "says wrongly what was done, or who did it: %v", problem)
	}
	if len(r.data) == 0 {
		return nil // the object could not be read when it was recorded
	}
	row := Row{Key: r.key, Revision: r.revision, Data: string(r.data)}
	if r.fields.Valid {
		row.Fields = &r.fields.String
	}
	known, err := v.clear(ctx, where, &row)
	if err != nil || !known {
		return err
	}
	if problem := r.check(&row); problem != nil {
		v.found(where, doWrite(r.revision), "%v", problem)
	}
	return nil
}

// check returns an error if a recorded, decrypted write is invalid: its paths, and the object before and after it.
func (r *revisionRow) check(clear *Row) error {
	var paths []string
	if clear.Fields == nil || json.Unmarshal([]byte(*clear.Fields), &paths) != nil {
		return errors.New("has no list of the paths that were changed")
	}
	before, after, err := recording.Unpack([]byte(clear.Data), r.about(*clear.Fields))
	switch {
	case err != nil:
		return err
	case !gjson.ValidBytes(after), before != nil && !gjson.ValidBytes(before):
		return errors.New("has an object that is not JSON")
	case gjson.GetBytes(after, "metadata.uid").String() != r.uid:
		return fmt.Errorf("has the uid %q, which is not the one of its object", r.uid)
	}
	return nil
}
