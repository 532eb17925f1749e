package openapi

import (
	"bytes"
	"slices"

	"github.com/rowlock/rowlock/resources/jsonscan"
)

// A CustomResourceDefinition stores its schemas as JSON, and an OpenAPI document has them as JSON, most of it equal and in nearly the same order.
// storedSchema converts the one to the other in one pass. Upstream goes through five forms of a schema: that of the API, the internal and the
// structural one, that of kube-openapi, and its text.
//
// Its input was stored by this server, which has validated it and writes members in the order of the Go type's fields. Any unexpected input is left
// to upstream.

// storedSchema converts the stored schema of a version to that of a document.
type storedSchema struct {
	jsonscan.Scanner
	out []byte
	// v2 is set for a document of version 2; see storedv2.go.
	v2 bool
	// object describes the object itself, and embedded the resources embedded in it.
	object, embedded *described
	// count is the number of schemas so far, and kinds has the numbers of those that describe an embedded resource.
	count int
	kinds map[int]bool
	// nullable tells whether the last schema allows null.
	nullable bool
}

// described is the common description of objects.
type described struct {
	// properties are the schemas of apiVersion, kind and metadata, in this order.
	properties [3][]byte
	// kind and selectable are the extensions for the kind and the selectable fields; nil: the schema has none.
	kind, selectable []byte
}

var ownNames = [3]string{"apiVersion", "kind", "metadata"}

// schemaMembers are the members of a schema in the stored order. They are written in the same order, except for nullable and the extensions.
var schemaMembers = func() map[string]int {
	places := map[string]int{}
	for i, name := range []string{"description", "type", "format", "title", "default", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum",
		"maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "multipleOf", "enum", "maxProperties", "minProperties", "required",
		"items", "allOf", "oneOf", "anyOf", "not", "properties", "additionalProperties", "externalDocs", "example", "nullable", openExtension,
		embeddedExtension, intOrStringExtension, mapKeysExtension, listTypeExtension, mapTypeExtension, rulesExtension} {
		places[name] = i + 1
	}
	return places
}()

const (
	openExtension        = "x-kubernetes-preserve-unknown-fields"
	embeddedExtension    = "x-kubernetes-embedded-resource"
	intOrStringExtension = "x-kubernetes-int-or-string"
	mapKeysExtension     = "x-kubernetes-list-map-keys"
	listTypeExtension    = "x-kubernetes-list-type"
	mapTypeExtension     = "x-kubernetes-map-type"
	rulesExtension       = "x-kubernetes-validations"
)

// Some members may have to be inserted before members that were read earlier, after those in lateAfter.
const (
	lateNullable = iota
	lateRequired
	lateAnyOf
	lateProperties
	lateMembers
)

var lateAfter = [lateMembers]int{schemaMembers["type"], schemaMembers["minProperties"], schemaMembers["oneOf"], schemaMembers["not"]}

// intOrString is the member that an int-or-string gets, unless it has one already.
const intOrString = `"anyOf":[{"type":"integer"},{"type":"string"}]`

// schemaNode is a schema being converted.
type schemaNode struct {
	// junctor is set for a branch of allOf or the like, which does not describe the structure.
	junctor bool
	// is describes the object of the schema; nil: that has no kind.
	is *described
	// last is the index of the last member that was read, and late are the positions for members inserted later.
	last int
	late [lateMembers]int

	required, anyOf, allOf, properties bool // were read
	nullable, open, embedded, either   bool
	plainAnyOf                         bool // equals intOrString
	mapKeys, listType, mapType, rules  []byte
	requires                           [][]byte // required names, with quotes

	reduced // for version 2
}

// write converts a schema. ok is false if upstream must do so.
func (w *storedSchema) write(text []byte) (ok bool) {
	w.Scanner = jsonscan.New(text)
	root := &schemaNode{is: w.object}
	if !w.node(root) || !w.End() {
		return false
	}
	if w.v2 && root.open {
		w.nameOnly(root)
	}
	return true
}

// within converts a nested schema, and once more if its end shows that it describes an embedded resource.
func (w *storedSchema) within(junctor bool) bool {
	before, began, number := w.Scanner, len(w.out), w.count
	n := &schemaNode{junctor: junctor}
	if w.kinds[number] {
		n.is = w.embedded
	}
	if !w.node(n) {
		return false
	}
	if !n.embedded || n.is != nil || w.v2 && n.open {
		return true
	}
	if w.kinds == nil {
		w.kinds = map[int]bool{}
	}
	w.kinds[number] = true // so that nested ones are converted only once
	w.Scanner, w.out, w.count = before, w.out[:began], number
	return w.node(&schemaNode{is: w.embedded})
}

func (w *storedSchema) node(n *schemaNode) bool {
	w.count++
	w.out = append(w.out, '{')
	for i := range n.late {
		n.late[i] = -1
	}
	if w.Peek() != '{' || !w.Members(func(key string) bool {
		place := schemaMembers[key]
		if place <= n.last {
			return false // unknown, duplicate, or out of order
		}
		n.last = place
		n.reach(place, len(w.out))
		return w.member(n, key)
	}) {
		return false
	}
	n.reach(len(schemaMembers)+1, len(w.out))
	if !n.covered(w) {
		return false
	}
	w.extensions(n)
	if w.v2 {
		w.reduce(n)
	} else {
		w.insertLate(n)
	}
	w.nullable = n.nullable
	if last := len(w.out) - 1; w.out[last] == ',' {
		w.out = w.out[:last]
	}
	w.out = append(w.out, '}')
	return true
}

// covered tells whether the schema is supported: what upstream adds to an int-or-string depends on its other members, and metadata must be in the
// structure.
func (n *schemaNode) covered(w *storedSchema) bool {
	if n.embedded && (n.junctor || n.is == w.object) {
		return false
	}
	if w.v2 {
		return n.covers()
	}
	return !n.either || !n.allOf && (!n.anyOf || n.plainAnyOf)
}

// reach records positions for members that may have to be inserted before the next one.
func (n *schemaNode) reach(place, at int) {
	for i, after := range lateAfter {
		if n.late[i] < 0 && place > after {
			n.late[i] = at
		}
	}
}

// insertLate inserts the late members. It begins with the last, so that the positions of the others remain valid.
func (w *storedSchema) insertLate(n *schemaNode) {
	if n.is != nil && !n.properties {
		w.insert(n.late[lateProperties], n.is.ownProperties())
	}
	if n.either && !n.junctor && !n.anyOf {
		w.insert(n.late[lateAnyOf], []byte(intOrString))
	}
	if n.is != nil && n.is == w.embedded && !n.required {
		w.insert(n.late[lateRequired], []byte(`"required":["kind","apiVersion"]`))
	}
	if n.nullable {
		w.insert(n.late[lateNullable], []byte(`"nullable":true`))
	}
}

// insert inserts a member at a position.
func (w *storedSchema) insert(at int, member []byte) {
	w.out = slices.Insert(w.out, at, append(member, ',')...)
}

// ownProperties are the properties for an object without any.
func (d *described) ownProperties() []byte {
	text := []byte(`"properties":{`)
	for i, name := range ownNames {
		text = append(appendMember(text, name, d.properties[i]), ',')
	}
	text[len(text)-1] = '}'
	return text
}

func appendMember(out []byte, name string, text []byte) []byte {
	return append(append(append(append(out, '"'), name...), '"', ':'), text...)
}

// extensions writes the extensions in the order of their names.
func (w *storedSchema) extensions(n *schemaNode) {
	yes := func(is bool) []byte {
		if is {
			return []byte("true")
		}
		return nil
	}
	var kind, selectable []byte
	if n.is != nil {
		kind, selectable = n.is.kind, n.is.selectable
	}
	for _, e := range []struct {
		name string
		text []byte
	}{{embeddedExtension, yes(n.embedded)}, {extensionKind, kind}, {intOrStringExtension, yes(n.either)}, {mapKeysExtension, n.mapKeys},
		{listTypeExtension, n.listType}, {mapTypeExtension, n.mapType}, {openExtension, yes(n.open)}, {extensionSelectable, selectable},
		{rulesExtension, n.rules}} {
		if e.text != nil {
			w.out = append(appendMember(w.out, e.name, e.text), ',')
		}
	}
}

// member converts a member and writes it with a trailing comma, unless it is written later.
func (w *storedSchema) member(n *schemaNode, key string) bool {
	if place := schemaMembers[key]; place >= schemaMembers["nullable"] {
		return w.extension(n, key)
	}
	began := len(w.out)
	w.out = append(append(append(w.out, '"'), key...), '"', ':')
	if !w.read(n, key) {
		return false
	}
	if w.v2 {
		w.keep(n, key, began)
		return true
	}
	if key == "anyOf" {
		n.anyOf, n.plainAnyOf = true, string(w.out[began:]) == intOrString
	}
	if key == "additionalProperties" && n.junctor {
		w.out = w.out[:began] // without effect there
		return true
	}
	w.out = append(w.out, ',')
	return true
}

func (w *storedSchema) read(n *schemaNode, key string) bool {
	switch key {
	case "description", "type", "format", "title", "pattern":
		return w.copyText()
	case "exclusiveMaximum", "exclusiveMinimum", "uniqueItems":
		w.out = append(w.out, "true"...)
		return w.Word("true")
	case "default", "example":
		return w.copyValue(key == "example")
	case "enum":
		return w.list(func() bool { return w.copyValue(false) || w.copyWord("null") })
	case "required":
		return w.readRequired(n)
	case "items":
		return w.within(n.junctor)
	case "not":
		return w.within(true)
	case "allOf", "oneOf", "anyOf":
		n.allOf = n.allOf || key == "allOf"
		return w.list(func() bool { return w.within(true) })
	case "properties":
		n.properties = true
		return w.readProperties(n)
	case "additionalProperties":
		if w.Peek() != '{' {
			return w.copyWord("true") || w.copyWord("false")
		}
		ok := w.within(n.junctor)
		n.nullableRest = w.nullable
		return ok
	case "externalDocs":
		return w.texts(map[string]int{"description": 1, "url": 2})
	}
	return w.copyNumber() // all others are numbers
}

// extension reads a member that is written at the end.
func (w *storedSchema) extension(n *schemaNode, key string) bool {
	is := func(it *bool) bool {
		*it = true
		return w.Word("true")
	}
	switch key {
	case "nullable":
		return is(&n.nullable)
	case openExtension:
		return is(&n.open)
	case embeddedExtension:
		return is(&n.embedded)
	case intOrStringExtension:
		return is(&n.either)
	case mapKeysExtension:
		return w.apart(&n.mapKeys, func() bool { return w.list(w.copyText) })
	case listTypeExtension:
		return w.apart(&n.listType, w.copyText)
	case mapTypeExtension:
		return w.apart(&n.mapType, w.copyText)
	}
	return w.apart(&n.rules, func() bool { return w.list(w.rule) })
}

// apart makes write append to a separate text.
func (w *storedSchema) apart(into *[]byte, write func() bool) bool {
	began := len(w.out)
	ok := write()
	*into, w.out = bytes.Clone(w.out[began:]), w.out[:began]
	return ok
}

// readProperties writes properties, with apiVersion, kind and metadata replaced by the document's.
func (w *storedSchema) readProperties(n *schemaNode) bool {
	w.out = append(w.out, '{')
	own, last := 0, ""
	if n.is == nil {
		own = len(ownNames)
	}
	upTo := func(name string) {
		for own < len(ownNames) && (name == "" || ownNames[own] <= name) {
			w.out = append(appendMember(w.out, ownNames[own], n.is.properties[own]), ',')
			own++
		}
	}
	if !w.Members(func(name string) bool {
		if name <= last || !isPlain(name) {
			return false // out of order, or needing escapes
		}
		last = name
		upTo(name)
		began := len(w.out)
		w.out = append(append(append(w.out, '"'), name...), '"', ':')
		if !w.within(n.junctor) {
			return false
		}
		if w.nullable && w.v2 {
			n.nullables = append(n.nullables, name)
		}
		if n.is != nil && slices.Contains(ownNames[:], name) {
			w.out = w.out[:began]
		} else {
			w.out = append(w.out, ',')
		}
		return true
	}) || last == "" {
		return false
	}
	upTo("")
	w.out[len(w.out)-1] = '}'
	return true
}
