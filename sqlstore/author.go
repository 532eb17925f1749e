package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/typedjson"
)

// agentMax is how many bytes of a User-Agent are kept, as in kube-apiserver's audit.
const agentMax = 1024

// truncated is appended to a User-Agent that is cut, as in kube-apiserver's audit.
const truncated = "...TRUNCATED"

// expiry is the author of the janitor's deletions.
var expiry = encodeAuthor(resources.Expiry)

// encodeAuthor returns the value of the column changes.author. It is valid text whatever a client sends: json replaces
// bytes that are not UTF-8, and escapes characters that a database would refuse.
func encodeAuthor(a resources.Author) sql.NullString {
	if a == (resources.Author{}) {
		return sql.NullString{}
	}
	if len(a.Agent) > agentMax {
		end := agentMax
		for end > 0 && !utf8.RuneStart(a.Agent[end]) {
			end--
		}
		a.Agent = a.Agent[:end] + truncated
	}
	b, ok := typedjson.Append(nil, &a)
	if ok {
		return sql.NullString{String: text(b), Valid: true}
	}
	b, err := json.Marshal(a)
	return sql.NullString{String: text(b), Valid: err == nil} // it has only strings, so Marshal does not fail
}

func decodeAuthor(text sql.NullString) (a resources.Author, err error) {
	if !text.Valid {
		return a, nil
	}
	if err := json.Unmarshal([]byte(text.String), &a); err != nil {
		return a, fmt.Errorf("changes.author: %w", err)
	}
	return a, nil
}

// Change is a row of the log without its objects.
type Change struct {
	Key      resources.Key
	Op       resources.Op
	Revision int64
	// PrevRevision is the revision of the object before the change; 0 for a Create.
	PrevRevision int64
	// At is the commit time, by the clock of the server that committed it.
	At time.Time
	// Author has no User if an earlier release wrote the change.
	Author resources.Author
}

// ChangesOptions select changes.
type ChangesOptions struct {
	// Resource is the resource type, as in resources.Key. Namespace and Name narrow it; empty means all.
	Resource, Namespace, Name string
	// After is the revision after which changes are wanted. A revision before the beginning of history selects all of
	// it.
	After int64
	// Limit is how many changes are returned at most; 0 means all.
	Limit int
}

// Changes returns the changes in history, with their authors, in the order of revisions. It reads the database.
//
// Errors: resources.ErrUnavailable; the context's.
func (s *Store) Changes(ctx context.Context, o ChangesOptions) (changes []Change, err error) {
	if o.Limit <= 0 {
		o.Limit = math.MaxInt32
	}
	err = s.db.each(ctx, func(scan func(...any) error) error {
		var c Change
		var op string
		var at int64
		var prev sql.NullInt64
		var author sql.NullString
		c.Key.Resource = o.Resource
		if err := scan(&c.Revision, &at, &op, &c.Key.Namespace, &c.Key.Name, &prev, &author); err != nil {
			return unavailable(err)
		}
		c.At, c.PrevRevision = milliseconds(at), prev.Int64
		var oerr, aerr error
		c.Op, oerr = parseOp(op)
		c.Author, aerr = decodeAuthor(author)
		changes = append(changes, c)
		return errors.Join(oerr, aerr)
	}, selectAuthorsSQL, o.Resource, o.After, o.Namespace, o.Name, o.Limit)
	return changes, err
}
