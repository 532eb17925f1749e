package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unsafe"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/typedjson"
)

// changeRow is a row of changes. Objects are stored as strings: they are JSON text, and people may query them.
type changeRow struct {
	revision, at, size        int64
	op                        string
	resource, namespace, name string
	prevRevision              sql.NullInt64
	fields, prevFields        sql.NullString
	data                      string
	prevData, author          sql.NullString
}

func (r *changeRow) args() []any {
	return []any{r.revision, r.at, r.size, r.op, r.resource, r.namespace, r.name, r.prevRevision,
		r.fields, r.prevFields, r.data, r.prevData, r.author}
}

// ops are the names that operations have in the database.
var ops = map[resources.Op]string{resources.Create: "create", resources.Update: "update", resources.Delete: "delete"}

func parseOp(name string) (resources.Op, error) {
	for op, n := range ops {
		if n == name {
			return op, nil
		}
	}
	return 0, fmt.Errorf("unknown operation %q in the database", name)
}

func newChangeRow(c *change, at int64) changeRow {
	e := c.event
	r := changeRow{revision: e.Revision, at: at, size: c.size(), op: ops[e.Op], resource: e.Object.Resource,
		namespace: e.Object.Namespace, name: e.Object.Name, data: c.stored.data, fields: c.stored.fields, author: c.author}
	if e.Prev != nil {
		r.prevRevision = sql.NullInt64{Int64: e.Prev.Revision, Valid: true}
	}
	if c.withPrev {
		r.prevData, r.prevFields = sql.NullString{String: c.prev.data, Valid: true}, c.prev.fields
	}
	return r
}

// text returns data as a string, without a copy: the bytes of an object are never changed.
func text(data []byte) string { return unsafe.String(unsafe.SliceData(data), len(data)) }

// bytesOf is the inverse of text.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

func encodeFields(f fields.Set) (sql.NullString, error) {
	if len(f) == 0 {
		return sql.NullString{}, nil
	}
	b, ok := typedjson.AppendMap(nil, f)
	if ok {
		return sql.NullString{String: text(b), Valid: true}, nil
	}
	b, err := json.Marshal(f)
	return sql.NullString{String: text(b), Valid: true}, err
}

// loader makes objects of rows. It shares repeated strings: a store has few types, namespaces and label keys. Objects
// with equal labels share their set, too: most have one, and a set is the largest part of an object beside its data.
type loader struct {
	strings        map[string]string
	labelSets      textSets
	selectableSets textSets
	origin         string // where history was read
	sealer         *sealer
	within         time.Duration               // time limit to decrypt a row; 0: none
	failing        time.Duration               // time spent on rows that could not be decrypted
	changed        map[int64]*resources.Object // objects read from history, by revision

	row  objectRow
	into []any // row
}

// objectRow is a row of selectObjectsSQL. Its data is a string because Scan does not copy strings.
type objectRow struct {
	key      resources.Key
	revision int64
	fields   sql.NullString
	data     string
}

// textSets are sets by the JSON that they were parsed from.
type textSets map[string]map[string]string

// textSetsMax is how many sets are remembered, and shared.
const textSetsMax = 4096

func (t *textSets) remember(text string, set map[string]string) {
	if *t == nil || len(*t) >= textSetsMax {
		*t = textSets{}
	}
	(*t)[text] = set
}

// internMax is the longest string that is worth sharing.
const internMax = 64

func (l *loader) intern(s string) string {
	if len(s) > internMax {
		return s
	}
	if known, ok := l.strings[s]; ok {
		return known
	}
	if l.strings == nil {
		l.strings = map[string]string{}
	}
	l.strings[s] = s
	return s
}

func (l *loader) object(scan func(...any) error) (loaded, error) {
	r := &l.row
	if l.into == nil {
		l.into = []any{&r.key.Resource, &r.key.Namespace, &r.key.Name, &r.revision, &r.fields, &r.data}
	}
	if err := scan(l.into...); err != nil {
		return loaded{}, unavailable(err)
	}
	key := resources.Key{Resource: l.intern(r.key.Resource), Namespace: l.intern(r.key.Namespace), Name: r.key.Name}
	path := key.Path()
	key.Name = path[len(path)-len(key.Name):] // one string instead of two, for the object's lifetime
	return loaded{path, l.build(key, r.revision, bytesOf(r.data), r.fields)}, nil
}

// build makes an object of the values of a row, or one that is Unreadable.
func (l *loader) build(key resources.Key, revision int64, data []byte, f sql.NullString) *resources.Object {
	if l.sealer.opens(text(data)) {
		ctx := context.Background()
		if l.within > 0 {
			bounded, cancel := context.WithTimeout(ctx, l.within)
			defer cancel()
			ctx = bounded
		}
		var err error
		if data, f, err = l.sealer.openMany(ctx, key, sealed{text(data), f}, &l.failing); err != nil {
			return resources.Unreadable(key, revision, err)
		}
	}
	return resources.LoadObject(key, revision, data, l.labels(data), l.fields(f))
}

// buildChanged is build for a row of the log: the object as its event has it. If an object was deleted that could not
// be read, the row has its data unchanged, but clients continue from the revision that the data show: so it is set to
// the deletion's.
func (l *loader) buildChanged(op resources.Op, key resources.Key, revision int64, data []byte, f sql.NullString) *resources.Object {
	o := l.build(key, revision, data, f)
	if op == resources.Delete {
		return o.Showing(revision)
	}
	return o
}

func (l *loader) labels(data []byte) labels.Set {
	raw := gjson.Get(text(data), "metadata.labels").Raw
	if raw == "" {
		return nil
	}
	set, ok := l.labelSets[raw]
	if !ok {
		raw = strings.Clone(raw) // substrings of it would keep all of data
		set = l.set(raw, nil)
		l.labelSets.remember(raw, set)
	}
	return set
}

func (l *loader) fields(f sql.NullString) fields.Set {
	if !f.Valid {
		return nil
	}
	set, ok := l.selectableSets[f.String]
	if !ok {
		set = l.set(f.String, fields.Set{})
		l.selectableSets.remember(f.String, set)
	}
	return set
}

// set parses a JSON object of strings into set. If set is nil, a set is created unless the object is empty.
func (l *loader) set(text string, set map[string]string) map[string]string {
	gjson.Parse(text).ForEach(func(k, v gjson.Result) bool {
		if set == nil {
			set = map[string]string{}
		}
		set[l.intern(k.String())] = l.intern(v.String())
		return true
	})
	return set
}
