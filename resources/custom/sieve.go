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

// sieve is a schema by which a value is pruned that another one has made. What is made of a field depends on nothing beside it, so that
// what the sieve does not let through makes no difference. all: it lets everything through, as far as is known.
type sieve struct {
	subschema
	all bool
}

// node is what pruning and defaulting go by at one place of a schema.
type node struct {
	// own is what stands there, and properties, items and additional are the schemas below, where there are any.
	own               string
	properties        properties
	items, additional *subschema
	// open: a field that is not named is kept, perhaps.
	open, unknown bool
}

// properties are fields by their names: a few, which a map would take longer to hold than they take to look through.
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

// read reads a schema. It is not ok where that is no object, or has escapes in its names.
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

// below is the sieve for a field. It is not kept where it does not let it through.
func (s sieve) below(n node, name string) (field sieve, kept bool) {
	at := n.properties.find(name)
	switch {
	case s.all, name == "metadata", name == "kind", name == "apiVersion": // of resources these are not looked into
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

// deepestSchema is how deep schemas may be within each other that are looked into.
const deepestSchema = 200

// sameNodes tells whether two schemas make the same of every value, as far as a sieve lets it through. It may be mistaken if it denies it.
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
