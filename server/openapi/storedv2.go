package openapi

import (
	"bytes"
	"slices"
)

// A document of version 2 describes less of a schema than one of version 3: upstream omits what version 2 does not have, and what kubectl does not
// support (ToStructuralOpenAPIV2 of apiextensions-apiserver, and kube-openapi's PruneDefaultsSchema). This depends on nullable and the extensions,
// which come last in the text, so members are written first and removed later.

// reduced is the state of a schema for version 2.
type reduced struct {
	typ string // with quotes
	// typed, items and members are the positions of these members in the output.
	typed, items, members span
	// nullables are the names of properties that may be null.
	nullables []string
	// nullableRest is set if other properties may be null.
	nullableRest bool
}

// span is a part of the output.
type span struct{ from, to int }

// keep completes a member that was written, or removes it if version 2 omits it.
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

// covers tells whether version 2 of the schema is supported: upstream's result varies for an array with properties, some nullable, but without
// items.
func (n *schemaNode) covers() bool { return n.typ != `"array"` || n.items.to > 0 || !n.properties }

// closed tells whether items and properties are omitted.
func (n *schemaNode) closed() bool { return n.nullable || n.open }

// untyped tells whether the type is omitted.
func (n *schemaNode) untyped() bool {
	return n.nullable || n.typ == `"array"` && (n.closed() || n.items.to == 0) || n.open && n.typ == `"object"`
}

// reduce removes what version 2 omits, and inserts late members. It begins with the last, so that the positions of the others remain valid.
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

// required returns the member of that name; nil: there is none. Nullable properties are not required.
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

// nameOnly writes an object that allows any fields without its properties: kubectl would take these for all of them.
func (w *storedSchema) nameOnly(n *schemaNode) {
	w.out = append(w.out[:0], `{"type":"object",`...)
	w.extensions(&schemaNode{is: n.is})
	w.out[len(w.out)-1] = '}'
}
