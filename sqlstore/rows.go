package sqlstore

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"unsafe"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/rowlock/rowlock/resources"
)

// changeRow is a row of changes. Objects go in and out as strings: they are JSON text, and a person may query them.
type changeRow struct {
	revision, at, size        int64
	op                        string
	resource, namespace, name string
	prevRevision              sql.NullInt64
	fields, prevFields        sql.NullString
	data                      string
	prevData                  sql.NullString
}

func (r *changeRow) args() []any {
	return []any{r.revision, r.at, r.size, r.op, r.resource, r.namespace, r.name, r.prevRevision,
		r.fields, r.prevFields, r.data, r.prevData}
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

func newChangeRow(e *resources.Event, at, size int64) (r changeRow, err error) {
	r = changeRow{revision: e.Revision, at: at, size: size, op: ops[e.Op], resource: e.Object.Resource,
		namespace: e.Object.Namespace, name: e.Object.Name, data: text(e.Object.Data)}
	if r.fields, err = encodeFields(e.Object.Fields); err != nil {
		return r, err
	}
	if e.Prev != nil {
		r.prevRevision = sql.NullInt64{Int64: e.Prev.Revision, Valid: true}
	}
	if e.Op == resources.Update {
		r.prevData = sql.NullString{String: text(e.Prev.Data), Valid: true}
		r.prevFields, err = encodeFields(e.Prev.Fields)
	}
	return r, err
}

// text is data as a string, without a copy: the bytes of an object are never changed.
func text(data []byte) string { return unsafe.String(unsafe.SliceData(data), len(data)) }

func encodeFields(f fields.Set) (sql.NullString, error) {
	if len(f) == 0 {
		return sql.NullString{}, nil
	}
	b, err := json.Marshal(f)
	return sql.NullString{String: string(b), Valid: true}, err
}

// loader makes objects of rows. It shares the strings that repeat: a store has few types, namespaces, label keys.
type loader struct{ strings map[string]string }

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

func (l *loader) object(scan func(...any) error) (*resources.Object, error) {
	var key resources.Key
	var revision int64
	var f sql.NullString
	var data []byte
	if err := scan(&key.Resource, &key.Namespace, &key.Name, &revision, &f, &data); err != nil {
		return nil, unavailable(err)
	}
	key.Resource, key.Namespace = l.intern(key.Resource), l.intern(key.Namespace)
	return l.build(key, revision, data, f), nil
}

func (l *loader) build(key resources.Key, revision int64, data []byte, f sql.NullString) *resources.Object {
	return resources.LoadObject(key, revision, data, l.labels(data), l.fields(f))
}

func (l *loader) labels(data []byte) labels.Set {
	var set labels.Set
	gjson.GetBytes(data, "metadata.labels").ForEach(func(k, v gjson.Result) bool {
		if set == nil {
			set = labels.Set{}
		}
		set[l.intern(k.String())] = l.intern(v.String())
		return true
	})
	return set
}

func (l *loader) fields(f sql.NullString) fields.Set {
	if !f.Valid {
		return nil
	}
	set := fields.Set{}
	gjson.Parse(f.String).ForEach(func(k, v gjson.Result) bool {
		set[l.intern(k.String())] = l.intern(v.String())
		return true
	})
	return set
}
