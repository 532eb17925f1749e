package custom

import (
	"strings"

	"github.com/rowlock/rowlock/resources/jsonscan"
)

// subschema is a part of the text of a schema.
type subschema struct {
	index *jsonscan.Index
	span  jsonscan.Span
}

// sieve is the schema that prunes a value after another schema has pruned and defaulted it. Each field is treated independently of the
// others, so fields that the sieve drops make no difference. all: the sieve keeps everything, as far as is known.
type sieve struct {
	subschema
	all bool
}

// node has the members of a schema that pruning and defaulting depend on.
type node struct {
	// own has the schema's own members, and properties, items and additional are the schemas below, if any.
	own               string
	properties        properties
	items, additional *subschema
	// open: an unnamed field may be kept.
	open, unknown bool
}

// properties are fields by their names: a few, so that a map would take longer to build than a list takes to search.
type properties []struct {
	name string
	subschema
}

func (p properties) find(name string) *subschema {
	for i := range p {
		if p[i].name == name {
			return &p[i].subschema
		}
	}
	return nil
}

// read reads a schema. ok is false where it is not an object, or has escapes in its names.
func (s subschema) read() (n node, ok bool) {
	ok = s.index.Members(s.span, func(name string, v jsonscan.Span) bool {
		at := subschema{s.index, v}
		switch name {
		case "type", "nullable", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string", "default":
			n.own += name + s.index.Of(v)
			n.unknown = n.unknown || name == "x-kubernetes-preserve-unknown-fields"
			n.open = n.open || strings.HasPrefix(name, "x-kubernetes-")
		case "items":
			n.items = &at
		case "additionalProperties":
			n.additional, n.open = &at, true
		case "properties":
			return s.index.Members(v, func(name string, v jsonscan.Span) bool {
				n.properties = append(n.properties, struct {
					name string
					subschema
				}{name, subschema{s.index, v}})
				return true
			})
		}
		return true
	})
	return n, ok
}

// below is the sieve for a field; kept is false where the sieve drops the field.
func (s sieve) below(n node, name string) (field sieve, kept bool) {
	at := n.properties.find(name)
	switch {
	case s.all, name == "metadata", name == "kind", name == "apiVersion": // these fields of resources are not checked
		return sieve{all: true}, true
	case at != nil:
		return sieve{subschema: *at}, true
	}
	return sieve{all: true}, n.open
}

// inItems is the sieve for the items of a list.
func (s sieve) inItems(n node) sieve {
	if s.all || n.unknown || n.items == nil {
		return sieve{all: true}
	}
	return sieve{subschema: *n.items}
}

// deepestSchema is the deepest nesting of schemas that is compared.
const deepestSchema = 200

// sameNodes reports whether two schemas treat every value alike, as far as the sieve keeps it. true is certain, false is not.
func sameNodes(a, b subschema, by sieve, depth int) bool {
	is, isOK := a.read()
	other, otherOK := b.read()
	var n node
	if !by.all {
		var ok bool
		if n, ok = by.read(); !ok {
			by = sieve{all: true}
		}
	}
	if !isOK || !otherOK || depth > deepestSchema {
		return a.index.Of(a.span) == b.index.Of(b.span)
	}
	if is.own != other.own || !sameOptional(is.additional, other.additional, sieve{all: true}, depth) || !sameOptional(is.items, other.items, by.inItems(n), depth) {
		return false
	}
	for _, now := range other.properties {
		if _, kept := by.below(n, now.name); kept && is.properties.find(now.name) == nil {
			return false
		}
	}
	for _, was := range is.properties {
		field, kept := by.below(n, was.name)
		if kept && !sameOptional(&was.subschema, other.properties.find(was.name), field, depth) {
			return false
		}
	}
	return true
}

func sameOptional(a, b *subschema, by sieve, depth int) bool {
	if a == nil || b == nil {
		return a == b
	}
	return sameNodes(*a, *b, by, depth+1)
}
