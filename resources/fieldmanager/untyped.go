package fieldmanager

import (
	"math"
	"reflect"

	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

// Untyped values are those of unstructured objects: map[string]any, []any, string, bool, int64, float64, nil. A value
// that does not exist is missing, which is not the same as nil.
var missing any = &struct{ missing bool }{}

// kind is the kind of an untyped value, as far as schemas distinguish kinds.
type kind uint8

const (
	kindMissing kind = iota
	kindNull
	kindScalar
	kindMap
	kindList
	kindOther // not a JSON value
)

func kindOf(v any) kind {
	switch v.(type) {
	case nil:
		return kindNull
	case map[string]any:
		return kindMap
	case []any:
		return kindList
	case string, bool, int64, float64:
		return kindScalar
	}
	if v == missing {
		return kindMissing
	}
	return kindOther
}

// takes reports whether a node allows the values of a kind.
func (p *schemaNode) takes(k kind) bool {
	switch k {
	case kindScalar:
		return p.scalar != ""
	case kindMap:
		return p.isMap
	case kindList:
		return p.isList
	}
	return false
}

// several reports whether a node allows more than one kind; null then has none of them.
func (p *schemaNode) several() bool {
	n := 0
	for _, allowed := range []bool{p.scalar != "", p.isMap, p.isList} {
		if allowed {
			n++
		}
	}
	return n != 1
}

// valid reports whether a value fits its schema; unique forbids duplicate items of an associative list. If it does not
// fit, upstream's manager words the error.
func (p *schemaNode) valid(v any, unique bool) bool {
	k := kindOf(v)
	if k == kindNull {
		return true
	}
	if !p.takes(k) {
		return false
	}
	switch v := v.(type) {
	case map[string]any:
		for name, x := range v {
			if child, _ := p.field(name); child == nil || !child.valid(x, unique) {
				return false
			}
		}
	case []any:
		return p.validItems(v, unique)
	default:
		return p.scalarFits(v)
	}
	return true
}

func (p *schemaNode) validItems(list []any, unique bool) bool {
	var buf []byte
	var seen map[element]bool
	if unique && len(list) > 1 {
		seen = make(map[element]bool, len(list))
	}
	for _, x := range list {
		if !p.item.valid(x, unique) {
			return false
		}
		if p.listAtomic {
			continue
		}
		var ok bool
		if buf, ok = p.appendElement(buf[:0], x); !ok || seen[string(buf)] {
			return false
		}
		if seen != nil {
			seen[string(buf)] = true
		}
	}
	return true
}

func (p *schemaNode) scalarFits(v any) bool {
	switch v.(type) {
	case string:
		return p.scalar == schema.String || p.scalar == schema.Untyped
	case bool:
		return p.scalar == schema.Boolean || p.scalar == schema.Untyped
	}
	return p.scalar == schema.Numeric || p.scalar == schema.Untyped
}

// appendElement appends the element of an item of an associative list. ok is false where the item has none, or one that
// is not covered.
func (p *schemaNode) appendElement(b []byte, v any) ([]byte, bool) {
	if len(p.keys) == 0 {
		return appendUntyped(append(b, "v:"...), v)
	}
	m, ok := v.(map[string]any)
	if !ok {
		return b, false
	}
	b = append(b, "k:{"...)
	empty := len(b)
	for _, k := range p.keys {
		x, there := m[k.name]
		if !there && k.covered && k.fallback == "" {
			continue
		}
		if len(b) > empty {
			b = append(b, ',')
		}
		b = append(append(append(b, `\"`...), k.name...), `\":`...)
		if !there {
			b = append(b, k.fallback...)
			if !k.covered {
				return b, false
			}
		} else if b, ok = appendUntyped(b, x); !ok {
			return b, false
		}
	}
	return append(b, '}'), len(b) > empty
}

func appendUntyped(b []byte, v any) ([]byte, bool) {
	if f, ok := v.(float64); ok && f == math.Trunc(f) && math.Abs(f) < 1e15 {
		v = int64(f)
	}
	switch v := v.(type) {
	case string:
		return appendString(b, v)
	case int64:
		return appendInt(b, v)
	case bool:
		return appendScalar(b, reflect.ValueOf(v))
	}
	return b, false
}

// equalUntyped reports whether two values are the same JSON. Whole numbers are equal in any Go type.
func equalUntyped(a, b any) bool {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for k, v := range x {
			if w, ok := y[k]; !ok || !equalUntyped(v, w) {
				return false
			}
		}
		return true
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !equalUntyped(x[i], y[i]) {
				return false
			}
		}
		return true
	case int64:
		if y, ok := b.(float64); ok {
			return float64(x) == y
		}
	case float64:
		if y, ok := b.(int64); ok {
			return x == float64(y)
		}
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return a == b
}
