package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/rowlock/rowlock/resources"
)

// Finding is a problem of a database.
type Finding struct {
	// Where is a table, with the key or the revision of a row; What is the problem; and Do is the remedy.
	Where, What, Do string
}

// Row is an object as it is stored.
type Row struct {
	resources.Key
	Revision int64
	Fields   *string // its selectable fields, as JSON; nil: it has none
	Data     string
	// Expires is when its lifetime ends, in milliseconds since 1970; nil: never.
	Expires *int64
}

// VerifyOptions say how a database is verified.
type VerifyOptions struct {
	// Decode returns an error if an object is invalid for its type. Nil: the types are not known.
	Decode func(Row) error
	// DecodePast is Decode for objects in the log: their type may have been different then, or may be gone.
	DecodePast func(Row) error
	// HasLifetime reports whether objects of a resource may have a lifetime. Nil: that is not known.
	HasLifetime func(resource string) bool
	// Plain returns a row decrypted, as a server reads it. Nil: rows that IsEncrypted are counted, and checked only as
	// far as that is possible without keys.
	Plain func(ctx context.Context, r Row) (Row, error)
	// Found is called with each problem.
	Found func(Finding)
}

// Verified counts what was checked.
type Verified struct {
	Objects, Changes int
	// Revisions are the writes in the object history.
	Revisions int
	// Encrypted is how many of these could not be decoded, because there is no Plain.
	Encrypted int
	Findings  int
}

// IsEncrypted reports whether the data of a row is not the object itself.
func (r Row) IsEncrypted() bool { return isSealed(r.Data) }

// The remedies. A copy made by backup and restore has everything new except the objects.
const (
	doCopy = "stop the servers, make a backup (rowlock backup) and restore it elsewhere (rowlock restore): indexes, log and counter are made anew"
	doRow  = "write the object again or delete it, or take it from a backup (rowlock restore --object)"
	doDisk = "the disk or the memory may be at fault: restore the last good backup (rowlock restore) on another machine"
	doEnd  = "set objects.expires of that row to NULL, before a server starts: one that works deletes the object at its time"
	doKey  = "name the EncryptionConfiguration of the servers; where that is it, they cannot read it either: put the key back, or take it from a backup"
	doLog  = "stop the servers and empty the log, after which clients list anew: " + doCopy
)

// verifier verifies one state of a database.
type verifier struct {
	*Source
	VerifyOptions
	result Verified
	floor  int64
	latest map[resources.Key]*latest // the last change of each object in the log
}

// Verify checks that a database is sound: the tables and their indexes, each object by itself and by its type, the log
// by itself and against the objects, the object history, the counter. It reads everything, and changes nothing. Errors:
// those of ctx. An error of the database is a finding.
func (s *Source) Verify(ctx context.Context, o VerifyOptions) (Verified, error) {
	v := &verifier{Source: s, VerifyOptions: o, latest: map[resources.Key]*latest{}}
	for _, part := range []struct {
		table string
		check func(context.Context) error
	}{
		{"schema_migrations", v.schema}, {"database", v.indexes}, {"meta", v.meta}, {"changes", v.log}, {"objects", v.objects},
		{"revisions", v.revisions},
	} {
		if err := part.check(ctx); err != nil {
			if ctx.Err() != nil {
				return v.result, ctx.Err()
			}
			v.found(part.table, doDisk, "cannot be read: %v", err)
			if s.postgres { // after a failed statement, the transaction has failed
				return v.result, nil
			}
		}
	}
	return v.result, nil
}

func (v *verifier) found(where, do, what string, args ...any) {
	v.result.Findings++
	v.Found(Finding{where, fmt.Sprintf(what, args...), do})
}

// objects checks each object, and whether the log agrees with it.
func (v *verifier) objects(ctx context.Context) error {
	var last resources.Key
	err := v.Objects(ctx, "", func(r Row) error {
		v.result.Objects++
		where := "objects " + r.Key.String()
		if r.Key == last {
			v.found(where, doCopy, "is there twice")
		}
		last = r.Key
		if r.Revision > v.state.Revision {
			v.found(where, doCopy, "has revision %d, and the counter is at %d: revisions would be given twice", r.Revision, v.state.Revision)
		}
		if r.Expires != nil && v.HasLifetime != nil && !v.HasLifetime(r.Resource) {
			v.found(where, doEnd, "is to be deleted at %s, and objects of its type have no lifetime", milliseconds(*r.Expires).UTC().Format(time.RFC3339))
		}
		digest, err := v.object(ctx, where, r, v.Decode)
		v.agrees(where, r, digest)
		return err
	})
	if err != nil {
		return err
	}
	for key, l := range v.latest {
		if !l.seen && l.op != "delete" && l.revision > v.floor {
			v.found("objects "+key.String(), doRow, "is missing: by the log it was written at revision %d and not deleted since", l.revision)
		}
	}
	return nil
}

// agrees compares an object with its last change in the log.
func (v *verifier) agrees(where string, r Row, digest uint64) {
	l := v.latest[r.Key]
	if l != nil {
		l.seen = true
	}
	switch {
	case l == nil || l.revision <= v.floor:
		if r.Revision > v.floor && r.Revision <= v.state.Revision {
			v.found(where, doLog, "has revision %d, of which the log knows nothing", r.Revision)
		}
	case l.op == "delete":
		v.found(where, doRow, "is there, and by the log it was deleted at revision %d", l.revision)
	case l.revision != r.Revision:
		v.found(where, doRow, "has revision %d, and by the log it was written last at revision %d", r.Revision, l.revision)
	case l.digest != digest && l.digest != 0 && digest != 0:
		v.found(where, doRow, "is not what the log has of revision %d", r.Revision)
	}
}

// object checks an object by itself, and returns a hash of its content; 0: the content is not known. decode may be nil.
func (v *verifier) object(ctx context.Context, where string, r Row, decode func(Row) error) (digest uint64, err error) {
	known, err := v.clear(ctx, where, &r)
	if err != nil || !known {
		return 0, err
	}
	if problem := plainObject(&r, decode); problem != nil {
		v.found(where, doRow, "%v", problem)
	}
	return r.digest(), nil
}

// clear decrypts a row, or reports that its content is not known. Errors: those of ctx.
func (v *verifier) clear(ctx context.Context, where string, r *Row) (known bool, err error) {
	if v.Plain != nil {
		if *r, err = v.Plain(ctx, *r); err == nil {
			return true, nil
		}
		v.found(where, doKey, "cannot be decrypted: %v", err)
		return false, ctx.Err()
	}
	if !r.IsEncrypted() {
		return true, nil
	}
	v.result.Encrypted++
	if problem := checkSealed(r); problem != nil {
		v.found(where, doRow, "%v", problem)
	}
	return false, nil
}

var digestSeed = maphash.MakeSeed()

func (r *Row) digest() uint64 {
	var h maphash.Hash
	h.SetSeed(digestSeed)
	h.WriteString(r.Data)
	if r.Fields != nil {
		h.WriteByte(0)
		h.WriteString(*r.Fields)
	}
	return h.Sum64()
}

// Check returns an error if a row is visibly no object of the store: if it is not JSON, say, or has another resourceVersion than the row. Of what is encrypted,
// it checks what can be checked without keys. decode, which may be nil, is called with other rows.
func (r Row) Check(decode func(Row) error) error {
	if r.IsEncrypted() {
		return checkSealed(&r)
	}
	return plainObject(&r, decode)
}

func plainObject(r *Row, decode func(Row) error) error {
	if !gjson.Valid(r.Data) || !strings.HasPrefix(r.Data, "{") {
		return errors.New("is not JSON")
	}
	if !utf8.ValidString(r.Data) { // decoders replace them by U+FFFD, and no server has written them
		return errors.New("has bytes that are not UTF-8")
	}
	if r.Fields != nil && !gjson.Valid(*r.Fields) {
		return errors.New("has selectable fields that are not JSON")
	}
	if version := gjson.Get(r.Data, "metadata.resourceVersion").String(); version != fmt.Sprint(r.Revision) {
		return fmt.Errorf("has revision %d in its row and resourceVersion %q in its data", r.Revision, version)
	}
	if decode == nil {
		return nil
	}
	return decode(*r)
}

// Objects calls visit for each object, of one resource or (if empty) of all, in the order of their keys.
func (s *Source) Objects(ctx context.Context, resource string, visit func(Row) error) error {
	const statement = "SELECT resource, namespace, name, revision, fields, data, expires FROM objects WHERE $1 = '' OR resource = $1 ORDER BY resource, namespace, name"
	rows, err := s.tx.QueryContext(ctx, statement, resource)
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // rows.Err reports the error
	for rows.Next() {
		var r Row
		if err := rows.Scan(&r.Resource, &r.Namespace, &r.Name, &r.Revision, &r.Fields, &r.Data, &r.Expires); err != nil {
			return err
		}
		if err := visit(r); err != nil {
			return err
		}
	}
	return rows.Err()
}
