package custom

import (
	"bytes"
	"cmp"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rowlock/rowlock/resources/jsonscan"
	"github.com/rowlock/rowlock/resources/typedjson"
)

// A schema that a client sends is stored in the encoding of its Go type: fields in the order of the type, empty ones omitted, the members of maps
// in the order of their names. canonicalSchema converts the text to this form without values of the Go type.

// canonicalSchema appends a schema to dst in its stored form. ok is false for unusual input: unknown fields and duplicate fields, null, numbers
// that have another spelling, lists of schemas for items, defaults with characters that JSON escapes, empty lists and objects, which are not
// stored but which upstream's validation distinguishes from missing ones, duplicate rules, which an apply may not have, and defaults with a field
// called metadata: upstream's validation removes unknown fields of metadata in embedded resources and at the root.
func canonicalSchema(dst, text []byte) (out []byte, ok bool) {
	fieldsFound.Do(findFields)
	c := canonical{Scanner: jsonscan.New(text), out: slices.Grow(dst, len(text)+1)}
	if !c.fields(schemaFields) || !c.End() || c.hasMetadata {
		return nil, false
	}
	return c.out, true
}

// canonical is a scanner that writes what it reads in the stored form.
type canonical struct {
	jsonscan.Scanner
	out []byte
	// parts are the members of the objects that are being written, and room is scratch space for sorting them.
	parts []part
	room  []byte
	// expression is the expression of the last rule in CEL that was read.
	expression string
	// hasMetadata: a default, or a similar value, has a field called metadata.
	hasMetadata bool
}

// part is a member that was written: a field of a struct (at) or an entry of a map (name). An omitted one has no text.
type part struct {
	at       int
	name     string
	from, to int
}

// typeField is a field of a Go type: read reads its value and writes it, and keep reports that it is not empty.
type typeField struct {
	at   int
	key  string
	read func(c *canonical) (keep, ok bool)
}

// schemaFields and ruleFields are the supported fields, by their names in JSON. findFields makes them, once, since their read functions refer to
// them.
var (
	schemaFields, ruleFields map[string]*typeField
	fieldsFound              sync.Once
)

func findFields() {
	schemaFields = fieldsOf(reflect.TypeFor[apiextensionsv1.JSONSchemaProps]())
	ruleFields = fieldsOf(reflect.TypeFor[apiextensionsv1.ValidationRule]())
	ruleFields["rule"].read = func(c *canonical) (bool, bool) { // written even if it is empty
		var ok bool
		c.expression, ok = c.text()
		return true, ok
	}
}

func fieldsOf(t reflect.Type) map[string]*typeField {
	fields := map[string]*typeField{}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if read := readerOf(t.Field(i).Type); read != nil {
			fields[name] = &typeField{at: i, key: string(typedjson.AppendString(nil, name)) + ":", read: read}
		}
	}
	return fields
}

// readerOf returns the read function for the values of a type; nil: the type is not supported.
func readerOf(t reflect.Type) func(c *canonical) (keep, ok bool) {
	always := func(read func(c *canonical) bool) func(c *canonical) (bool, bool) {
		return func(c *canonical) (bool, bool) { return true, read(c) }
	}
	listOf := func(read func(c *canonical) bool) func(c *canonical) (bool, bool) {
		return func(c *canonical) (bool, bool) { return c.list(read) }
	}
	switch t {
	case reflect.TypeFor[string]():
		return func(c *canonical) (bool, bool) {
			s, ok := c.text()
			return s != "", ok
		}
	case reflect.TypeFor[bool]():
		return (*canonical).bool
	case reflect.TypeFor[[]string]():
		return listOf(func(c *canonical) bool { _, ok := c.text(); return ok })
	case reflect.TypeFor[*apiextensionsv1.JSON]():
		return always((*canonical).plain)
	case reflect.TypeFor[[]apiextensionsv1.JSON]():
		return listOf((*canonical).plain)
	case reflect.TypeFor[*apiextensionsv1.JSONSchemaProps](), reflect.TypeFor[*apiextensionsv1.JSONSchemaPropsOrArray]():
		return always((*canonical).schema)
	case reflect.TypeFor[[]apiextensionsv1.JSONSchemaProps]():
		return listOf((*canonical).schema)
	case reflect.TypeFor[*apiextensionsv1.JSONSchemaPropsOrBool]():
		return always(func(c *canonical) bool {
			if c.Peek() == '{' {
				return c.schema()
			}
			_, ok := c.bool()
			return ok
		})
	case reflect.TypeFor[map[string]apiextensionsv1.JSONSchemaProps]():
		return func(c *canonical) (bool, bool) { return c.members((*canonical).schema) }
	case reflect.TypeFor[apiextensionsv1.ValidationRules]():
		return (*canonical).rules
	}
	if t.Kind() != reflect.Pointer {
		return nil
	}
	switch t.Elem().Kind() {
	case reflect.String:
		return always(func(c *canonical) bool { _, ok := c.text(); return ok })
	case reflect.Bool:
		return always(func(c *canonical) bool { _, ok := c.bool(); return ok })
	case reflect.Int64:
		return always((*canonical).integer)
	case reflect.Float64:
		return always((*canonical).float)
	}
	return nil
}

func (c *canonical) schema() bool { return c.fields(schemaFields) }

// rules reads rules in CEL; two rules with one expression are not ok.
func (c *canonical) rules() (keep, ok bool) {
	known := sets.Set[string]{}
	return c.list(func(c *canonical) bool {
		ok := c.rule() && !known.Has(c.expression)
		known.Insert(c.expression)
		return ok
	})
}

// rule reads a rule in CEL. A rule without an expression is written with an empty one.
func (c *canonical) rule() bool {
	from := len(c.out)
	return c.fields(ruleFields) && bytes.HasPrefix(c.out[from:], []byte(`{"rule":`))
}

// fields reads an object of a Go type.
func (c *canonical) fields(known map[string]*typeField) bool {
	parts, begin := len(c.parts), len(c.out)
	c.out = append(c.out, '{')
	return c.Members(func(name string) bool {
		f := known[name]
		if f == nil {
			return false
		}
		from := len(c.out)
		c.out = append(c.out, f.key...)
		keep, ok := f.read(c)
		if last := c.out[len(c.out)-1]; !keep && (last == ']' || last == '}') {
			return false
		}
		c.end(part{at: f.at, from: from}, keep)
		return ok
	}) && c.order(parts, begin)
}

// members reads an object that is a map.
func (c *canonical) members(read func(c *canonical) bool) (keep, ok bool) {
	parts, begin := len(c.parts), len(c.out)
	c.out = append(c.out, '{')
	ok = c.Members(func(name string) bool {
		from := len(c.out)
		c.out = append(typedjson.AppendString(c.out, name), ':')
		ok := read(c)
		c.end(part{name: name, from: from}, true)
		return ok
	})
	keep = len(c.parts) > parts
	return keep, ok && c.order(parts, begin)
}

// end ends a member: it writes the comma behind it, or removes a member that is not kept.
func (c *canonical) end(p part, keep bool) {
	if keep {
		c.out = append(c.out, ',')
	} else {
		c.out = c.out[:p.from]
	}
	p.to = len(c.out)
	c.parts = append(c.parts, p)
}

// order ends an object whose text begins at begin and whose parts begin at parts, and sorts its members. It returns false if two have one name.
func (c *canonical) order(parts, begin int) bool {
	all := c.parts[parts:]
	compare := func(a, b part) int { return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.name, b.name)) }
	if !slices.IsSortedFunc(all, compare) {
		slices.SortFunc(all, compare)
		c.room = c.room[:0]
		for _, p := range all {
			c.room = append(c.room, c.out[p.from:p.to]...)
		}
		copy(c.out[begin+1:], c.room)
	}
	for i := 1; i < len(all); i++ {
		if compare(all[i-1], all[i]) == 0 {
			return false
		}
	}
	c.parts = c.parts[:parts]
	if len(c.out) == begin+1 {
		c.out = append(c.out, '}')
	} else {
		c.out[len(c.out)-1] = '}'
	}
	return true
}

// list reads a list, which is not kept if it is empty.
func (c *canonical) list(read func(c *canonical) bool) (keep, ok bool) {
	c.out = append(c.out, '[')
	ok = c.Elements(func() bool {
		keep = true
		ok := read(c)
		c.out = append(c.out, ',')
		return ok
	})
	if keep {
		c.out[len(c.out)-1] = ']'
	} else {
		c.out = append(c.out, ']')
	}
	return keep, ok
}

func (c *canonical) text() (string, bool) {
	s, ok := c.Text()
	c.out = typedjson.AppendString(c.out, s)
	return s, ok
}

func (c *canonical) bool() (value, ok bool) {
	value = c.Word("true")
	ok = value || c.Word("false")
	c.out = strconv.AppendBool(c.out, value)
	return value, ok
}

// mostDigits is the greatest length of a number that all readers of JSON read as the same value.
const mostDigits = 15

func (c *canonical) integer() bool {
	text, integer, ok := c.Number()
	c.out = append(c.out, text...)
	return ok && integer && len(text) <= mostDigits && !strings.HasPrefix(text, "-0")
}

// float reads a number that consists of digits.
func (c *canonical) float() bool {
	text, _, ok := c.Number()
	if !ok || len(text) > mostDigits || strings.HasPrefix(text, "-0") || strings.ContainsAny(text, "eE") {
		return false
	}
	f, err := strconv.ParseFloat(text, 64)
	if size := max(f, -f); err != nil || size != 0 && size < 1e-6 {
		return false
	}
	c.out = strconv.AppendFloat(c.out, f, 'f', -1, 64)
	return true
}

// maxPlain is the deepest nesting of values in defaults and the like.
const maxPlain = 50

// plain reads any value but null in which JSON escapes nothing.
func (c *canonical) plain() bool {
	from := len(c.out)
	ok := c.value() && jsonscan.Plain(c.out[from:], maxPlain)
	c.hasMetadata = c.hasMetadata || bytes.Contains(c.out[from:], []byte(`"metadata":`))
	return ok
}

func (c *canonical) value() (ok bool) {
	switch c.Peek() {
	case '{':
		_, ok = c.members((*canonical).value)
	case '[':
		_, ok = c.list((*canonical).value)
	case '"':
		_, ok = c.text()
	case 't', 'f':
		_, ok = c.bool()
	case 'n':
	default:
		ok = c.integer()
	}
	return ok
}
