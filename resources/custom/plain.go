package custom

import (
	"crypto/sha256"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apiservervalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/rowlock/rowlock/resources/jsonscan"
)

// Most of a schema is plain: fields of objects, their types, bounds and descriptions. Upstream's validation has neither an error nor a warning
// for them, whatever surrounds them, and needs Go values to find that out, which take longer to make. plainParts finds parts in the text of a
// schema that are certainly plain. It does not know rare features, and leaves parts with these, and all that contain them, to upstream.

// plainParts are the parts of a schema that are plain.
type plainParts struct {
	index *jsonscan.Index
	// ruled: rules in CEL are checked elsewhere.
	ruled bool
	// patterns are regular expressions that are known to be valid.
	patterns *seen
	// others are the parts that were checked and are not plain. unread: some parts could not be checked.
	others map[jsonscan.Span]bool
	unread bool
}

// has reports whether a part is plain.
func (p *plainParts) has(node jsonscan.Span) bool { return !p.unread && !p.others[node] }

// plainNode has the members of a schema, as JSON.
type plainNode struct {
	kind, format, pattern, listType, mapType, anyOf, def string
	properties, items, values, required, keys, enum      jsonscan.Span
	// open: properties other than the named ones are allowed.
	open, closed, nullable, either, free, bounded bool
	minimum                                       string
}

// look checks a part and all parts of it.
func (p *plainParts) look(node jsonscan.Span) (plain bool) {
	n, plain := p.read(node)
	plain = plain && p.fits(n)
	if !n.properties.IsNone() {
		read := p.index.Members(n.properties, func(_ string, v jsonscan.Span) bool {
			plain = p.look(v) && plain
			return true
		})
		p.unread = p.unread || !read
	}
	for _, below := range []jsonscan.Span{n.items, n.values} {
		if !below.IsNone() {
			plain = p.look(below) && plain
		}
	}
	if !plain {
		p.others[node] = true
	}
	return plain
}

// read reads a schema, without the schemas below it. ok is false where the schema has an unknown member.
func (p *plainParts) read(node jsonscan.Span) (n plainNode, ok bool) {
	known := true
	ok = p.index.Members(node, func(name string, v jsonscan.Span) bool {
		text := p.index.Of(v)
		switch name {
		case "description", "title":
		case "type":
			n.kind = text
		case "format":
			n.format = text
		case "pattern":
			n.pattern = text
		case "default":
			n.def = text
		case "anyOf":
			n.anyOf = text
		case "enum":
			n.enum = v
		case "required":
			n.required = v
		case "properties":
			n.properties = v
		case "items":
			n.items = v
			known = known && text[0] == '{'
		case "additionalProperties":
			if n.open, n.closed = text != "false", text == "false"; text[0] == '{' {
				n.values = v
			}
		case "minimum":
			n.minimum = text
		case "minLength", "minItems", "minProperties", "maximum", "exclusiveMaximum", "exclusiveMinimum", "maxLength", "maxItems", "maxProperties", "multipleOf":
			n.bounded = true
		case "nullable":
			n.nullable = text == "true"
		default:
			known = known && (n.extension(name, text, v) || name == rulesOfNode && p.ruled)
		}
		return true
	})
	p.unread = p.unread || !ok
	return n, ok && known
}

// extension reads one of Kubernetes' own fields.
func (n *plainNode) extension(name, text string, v jsonscan.Span) (known bool) {
	switch name {
	case "x-kubernetes-int-or-string":
		n.either = text == "true"
	case "x-kubernetes-preserve-unknown-fields":
		n.free = text == "true"
		return n.free
	case "x-kubernetes-list-type":
		n.listType = text
	case "x-kubernetes-list-map-keys":
		n.keys = v
	case "x-kubernetes-map-type":
		n.mapType = text
	default:
		return false
	}
	return true
}

// isScalar reports whether values have neither fields nor items.
func (n *plainNode) isScalar() bool {
	return !n.either && (n.kind == `"string"` || n.kind == `"integer"` || n.kind == `"number"` || n.kind == `"boolean"`)
}

// fits reports whether the members of a schema are consistent, without the schemas below it.
func (p *plainParts) fits(n plainNode) bool {
	fields, items, values := !n.properties.IsNone(), !n.items.IsNone(), !n.values.IsNone()
	array, object := n.kind == `"array"`, n.kind == `"object"`
	switch {
	case array != items, !object && (fields || n.open || n.closed || n.mapType != ""), fields && (n.open || n.closed), values && n.closed,
		!array && (n.listType != "" || !n.keys.IsNone()), n.either && (n.kind != "" || n.free), n.free && !object && n.kind != "",
		!array && !object && !n.isScalar() && !n.either && !n.free, n.mapType != "" && n.mapType != `"atomic"` && n.mapType != `"granular"`,
		n.anyOf != "" && (!n.either || n.anyOf != `[{"type":"integer"},{"type":"string"}]`):
		return false
	}
	return (!array || p.listFits(n)) && (n.format == "" || p.formatFits(n)) && (n.pattern == "" || p.patternFits(n.pattern)) && (n.def == "" || p.defaultFits(n))
}

// listFits reports whether the items of a list of type set or map satisfy the rules for them.
func (p *plainParts) listFits(n plainNode) bool {
	if n.listType == "" || n.listType == `"atomic"` {
		return n.keys.IsNone()
	}
	item, ok := p.read(n.items)
	if !ok || item.nullable {
		return false
	}
	if n.listType == `"set"` {
		return n.keys.IsNone() && item.isScalar()
	}
	if n.listType != `"map"` || item.kind != `"object"` || item.properties.IsNone() || n.keys.IsNone() {
		return false
	}
	keys, required := p.texts(n.keys), sets.New(p.texts(item.required)...)
	left := sets.New(keys...)
	fit := len(keys) > 0 && len(left) == len(keys)
	p.index.Members(item.properties, func(name string, v jsonscan.Span) bool {
		if key := `"` + name + `"`; left.Has(key) {
			left.Delete(key)
			field, ok := p.read(v)
			fit = fit && ok && field.isScalar() && !field.nullable && (field.def != "" || required.Has(key))
		}
		return true
	})
	return fit && len(left) == 0
}

// texts are the elements of a list; none if it is not a list.
func (p *plainParts) texts(list jsonscan.Span) (all []string) {
	p.index.Elements(list, func(v jsonscan.Span) bool {
		all = append(all, p.index.Of(v))
		return true
	})
	return all
}

// formatFits reports whether upstream knows a format; it warns of unknown ones.
func (p *plainParts) formatFits(n plainNode) bool {
	if strings.Contains(n.format, `\`) {
		return false
	}
	s := spec.Schema{SchemaProps: spec.SchemaProps{Format: strings.Trim(n.format, `"`), Type: []string{strings.Trim(n.kind, `"`)}}}
	return len(apiservervalidation.GetUnrecognizedFormats(&s, environment.DefaultCompatibilityVersion())) == 0
}

func (p *plainParts) patternFits(text string) bool {
	key := sha256.Sum256(bytesOf(text))
	if p.patterns.Has(key) {
		return true
	}
	scanner := jsonscan.New(bytesOf(text))
	pattern, ok := scanner.Text()
	if !ok {
		return false
	}
	if _, err := regexp.Compile(pattern); err != nil {
		return false
	}
	p.patterns.Add(key)
	return true
}

// defaultFits reports whether a default is a value of its schema, for schemas so simple that this is evident.
func (p *plainParts) defaultFits(n plainNode) bool {
	if n.bounded || n.pattern != "" || n.either {
		return false
	}
	if !n.enum.IsNone() {
		if n.kind != `"string"` || !slices.Contains(p.texts(n.enum), n.def) {
			return false
		}
	}
	switch n.kind {
	case `"string"`:
		return n.def[0] == '"' && n.format == "" && n.minimum == ""
	case `"boolean"`:
		return n.def == "true" || n.def == "false"
	case `"integer"`:
		least, err := int64(0), error(nil)
		if n.minimum != "" {
			least, err = strconv.ParseInt(n.minimum, 10, 32)
		}
		v, wrong := strconv.ParseInt(n.def, 10, 32)
		return err == nil && wrong == nil && (n.minimum == "" || v >= least)
	case `"object"`:
		return n.def == "{}" && n.required.IsNone() && n.minimum == ""
	case `"array"`:
		return n.def == "[]" && n.minimum == ""
	}
	return false
}

// standIn is a schema with the members that upstream needs of a plain one at its place.
func (p *plainParts) standIn(node jsonscan.Span) string {
	n, _ := p.read(node)
	switch {
	case n.kind == `"array"`:
		return `{"items":{"type":"object"},"type":"array"}`
	case n.kind != "":
		return `{"type":` + n.kind + `}`
	case n.either:
		return `{"x-kubernetes-int-or-string":true}`
	}
	return `{"x-kubernetes-preserve-unknown-fields":true}`
}
