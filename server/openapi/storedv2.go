package openapi

import (
	"bytes"
	"slices"
)

// A document of version 2 says less of a schema than one of version 3: upstream leaves out what version 2 has not, and what kubectl cannot
// cope with (ToStructuralOpenAPIV2 of apiextensions-apiserver, and kube-openapi's PruneDefaultsSchema). What it decides by, nullable and
// the extensions, comes last in the text, so that members are written and taken back.

// reduced is what version 2 needs to know of a schema.
type reduced struct {
	typ string // with quotes
	// typed, items and members are where these members were written.
	typed, items, members span
	// nullables are the names of properties that may be null.
	nullables []string
	// nullableRest: other properties may be null.
	nullableRest bool
}

// span is a part of what is written.
type span struct{ from, to int }

// keep completes a member that was written, or takes it back where version 2 has none.
func (w *storedSchema) keep(n *schemaNode, key string, began int) {
	switch key {
	case "allOf", "oneOf", "anyOf", "not", "default", "required":
		w.out = w.out[:began]
		return
	}
	w.out = append(w.out, ',')
	written := span{began, len(w.out)}
	switch key {
	case "type":
		n.typed, n.typ = written, string(bytes.TrimPrefix(w.out[began:len(w.out)-1], []byte(`"type":`)))
	case "items":
		n.items = written
	case "properties":
		n.members = written
	}
}

// covers: upstream's answer is not always the same for a list that says nothing of its items but has properties some of which may be null.
func (n *schemaNode) covers() bool { return n.typ != `"array"` || n.items.to > 0 || !n.properties }

// closed: nothing is said of items and properties.
func (n *schemaNode) closed() bool { return n.nullable || n.open }

// untyped: the type is not told.
func (n *schemaNode) untyped() bool {
	return n.nullable || n.typ == `"array"` && (n.closed() || n.items.to == 0) || n.open && n.typ == `"object"`
}

// reduce takes back what version 2 does not say, and writes what is known late. What comes last goes first, so that places stay what they are.
func (w *storedSchema) reduce(n *schemaNode) {
	cut := func(s span) { w.out = slices.Delete(w.out, s.from, s.to) }
	if n.closed() {
		cut(n.members)
	}
	if n.is != nil && (n.closed() || !n.properties) {
		w.insert(n.late[lateProperties], n.is.ownProperties())
	}
	if n.closed() {
		cut(n.items)
	}
	if text := w.required(n); text != nil {
		w.insert(n.late[lateRequired], text)
	}
	if n.untyped() {
		cut(n.typed)
	}
}

// required is the member of that name; nil: there is none. What may be null is not required.
func (w *storedSchema) required(n *schemaNode) (text []byte) {
	var names [][]byte
	if !n.nullableRest {
		names = slices.DeleteFunc(n.requires, func(raw []byte) bool {
			return !n.closed() && slices.Contains(n.nullables, string(raw[1:len(raw)-1]))
		})
	}
	if len(names) > 0 || n.is != nil && n.is == w.embedded {
		w.apart(&text, func() bool {
			w.out = append(w.out, `"required":`...)
			w.writeNames(n, names)
			return true
		})
	}
	return text
}

// nameOnly writes what is said of an object of which any fields are allowed: kubectl would take those that are named for all.
func (w *storedSchema) nameOnly(n *schemaNode) {
	w.out = append(w.out[:0], `{"type":"object",`...)
	w.extensions(&schemaNode{is: n.is})
	w.out[len(w.out)-1] = '}'
}
