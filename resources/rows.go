package resources

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Rows gives access to Rowlock's own rows: the members, the certificate authority that all use. Their resources end in
// rowlock.internal, no API serves them, and no rules outside this file apply to them, so they do not go through
// Pipeline. Rows refuses all other resources.
type Rows struct {
	Reader
	writer Writer
}

// NewRows returns the access to the rows of a store.
func NewRows(s Store) *Rows { return &Rows{Reader: s, writer: s} }

// internalSuffix is the suffix of the resources of Rowlock's own rows.
const internalSuffix = ".rowlock.internal"

// IsOwnRow reports whether a resource is one of Rowlock's own rows.
func IsOwnRow(resource string) bool { return strings.HasSuffix(resource, internalSuffix) }

// Create stores a new row with a spec. ttl, when positive, is its lifetime.
//
// Errors: those of Writer.Commit, ErrExists among them.
func (r *Rows) Create(ctx context.Context, key Key, kind string, spec any, ttl time.Duration) (*Object, error) {
	return r.put(ctx, Write{Op: Create, Key: key, TTL: ttl}, kind, spec)
}

// CreateFor stores a new row that belongs to an object, if the object has not changed.
//
// Errors: those of Writer.Commit, ErrExists and *ExpectationError among them.
func (r *Rows) CreateFor(ctx context.Context, of *Object, key Key, d Draft) (*Object, error) {
	return r.commit(ctx, Write{Op: Create, Key: key, Draft: d}, Write{Op: Expect, Key: of.Key, From: of.Revision})
}

// Update replaces the spec of a row, and lets it live for ttl from now on if ttl is positive.
//
// Errors: those of Writer.Commit, *ConflictError and ErrNotFound among them.
func (r *Rows) Update(ctx context.Context, was *Object, kind string, spec any, ttl time.Duration) (*Object, error) {
	return r.put(ctx, Write{Op: Update, Key: was.Key, From: was.Revision, TTL: ttl}, kind, spec)
}

// Delete removes a row if it has not changed.
//
// Errors: those of Writer.Commit, *ConflictError and ErrNotFound among them.
func (r *Rows) Delete(ctx context.Context, was *Object) error {
	_, err := r.commit(ctx, Write{Op: Delete, Key: was.Key, From: was.Revision})
	return err
}

func (r *Rows) put(ctx context.Context, w Write, kind string, spec any) (*Object, error) {
	var err error
	if w.Draft, err = InternalDraft(kind, w.Key.Name, spec); err != nil {
		return nil, err
	}
	return r.commit(ctx, w)
}

// verbs are the verbs of the requests that correspond to the writes of a row.
var verbs = map[Op]string{Create: "create", Update: "update", Delete: "delete"}

// commit writes a row. expects are the Expects of the same Commit.
func (r *Rows) commit(ctx context.Context, w Write, expects ...Write) (*Object, error) {
	if !IsOwnRow(w.Key.Resource) {
		return nil, fmt.Errorf("%s is no row of the server's own", w.Key)
	}
	stored, err := r.writer.Commit(ofRow(ctx, verbs[w.Op]), append([]Write{w}, expects...)...)
	if err != nil {
		return nil, err
	}
	return stored[0], nil
}

// internalRow is an object of the server's own, under a resource that no API serves. It has the form of an API object,
// so that people who read the tables recognise it.
type internalRow struct {
	Kind       string          `json:"kind"`
	APIVersion string          `json:"apiVersion"`
	Metadata   internalMeta    `json:"metadata"`
	Spec       json.RawMessage `json:"spec"`
}

type internalMeta struct {
	Name            string `json:"name"`
	ResourceVersion string `json:"resourceVersion"`
}

// InternalDraft makes one of Rowlock's own rows with a spec, for a resource whose name ends in rowlock.internal.
func InternalDraft(kind, name string, spec any) (Draft, error) {
	encoded, err := json.Marshal(spec)
	if err != nil {
		return Draft{}, err
	}
	data, err := json.Marshal(internalRow{kind, "rowlock.internal/v1", internalMeta{name, PlaceholderRevision}, encoded})
	if err != nil {
		return Draft{}, err
	}
	d, _ := DraftOf(data)
	return d, nil
}

// DecodeInternal reads the spec of a row that InternalDraft made.
func DecodeInternal(o *Object, spec any) error {
	var row internalRow
	err := json.Unmarshal(o.Data, &row)
	if err == nil {
		err = json.Unmarshal(row.Spec, spec)
	}
	if err != nil {
		return &DecodeError{o.Key, err}
	}
	return nil
}
