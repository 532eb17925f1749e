package expressions

import (
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// kind is the type of a value in Go and in CEL.
type kind uint8

const (
	// foreign values are left to upstream.
	foreign  kind = iota
	aBool         // bool
	anInt         // int64
	aDouble       // float64; in an object int64, too
	aString       // string
	either        // x-kubernetes-int-or-string: int64 or string
	duration      // time.Duration; objects have none
	anObject      // map[string]any with the properties of a schema
	aMap          // map[string]any of values of one shape
	aList         // []any
)

// shape is the type information of the values of an expression.
type shape struct {
	kind kind
	// schema of an object.
	schema *structuralschema.Structural
	// item is the shape of the items of a list, or of the values of a map. Nil: it has none.
	item *shape
}

// shapeOf follows upstream's UnstructuredToVal.
func shapeOf(s *structuralschema.Structural) *shape {
	if s.XIntOrString {
		return &shape{kind: either}
	}
	switch s.Type {
	case "object":
		switch open := s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil; {
		case s.XEmbeddedResource, open && s.Properties != nil:
		case open:
			return &shape{kind: aMap, item: shapeOf(s.AdditionalProperties.Structural)}
		case s.Properties != nil:
			return &shape{kind: anObject, schema: s}
		}
	case "array":
		if s.Items != nil {
			return &shape{kind: aList, item: shapeOf(s.Items)}
		}
	case "string":
		if v := s.ValueValidation; v == nil || !otherTexts[v.Format] {
			return &shape{kind: aString}
		}
	case "number":
		return &shape{kind: aDouble}
	case "integer":
		return &shape{kind: anInt}
	case "boolean":
		return &shape{kind: aBool}
	}
	return &shape{kind: foreign}
}

// otherTexts are the formats of texts that are not strings in CEL.
var otherTexts = map[string]bool{"duration": true, "date": true, "date-time": true, "byte": true}

// itemKind is the kind of the items of a list, or of the values of a map. If it has none, the kind does not matter.
func (s *shape) itemKind() kind {
	if s.item == nil {
		return aBool
	}
	return s.item.kind
}

// field finds the shape of a property.
func (s *shape) field(name string) *shape {
	if property, ok := s.schema.Properties[name]; ok {
		return shapeOf(&property)
	}
	return &shape{kind: foreign}
}

// read checks that a value of an object has the kind, and converts it. ok is false for another type, which upstream has to
// judge.
func (k kind) read(v any) (any, bool) {
	ok := false
	switch k {
	case aBool:
		_, ok = v.(bool)
	case anInt:
		_, ok = v.(int64)
	case aDouble:
		if i, whole := v.(int64); whole {
			return float64(i), true
		}
		_, ok = v.(float64)
	case aString:
		_, ok = v.(string)
	case either:
		if _, ok = v.(string); !ok {
			_, ok = v.(int64)
		}
	case anObject, aMap:
		_, ok = v.(map[string]any)
	case aList:
		_, ok = v.([]any)
	}
	return v, ok
}

// joint is the shape of values that have one shape or the other. It is nil where nothing is known of them.
func joint(a, b *shape) *shape {
	switch {
	case a == nil:
		return b
	case b == nil || a == b:
		return a
	case a.kind != b.kind || a.kind == foreign:
		return nil
	case a.kind == anObject:
		if a.schema == b.schema {
			return a
		}
		return nil
	case a.kind == aList || a.kind == aMap:
		item := joint(a.item, b.item)
		if item == nil && (a.item != nil || b.item != nil) {
			return nil
		}
		return &shape{kind: a.kind, item: item}
	}
	return a
}

// scalar reports whether == compares values of the kind. An int is not a double: upstream compares these.
func (k kind) scalar() bool { return k >= aBool && k <= duration }

// equatable reports whether == of Go compares values of two kinds as CEL does.
func equatable(a, b *shape) bool {
	if a == nil || b == nil {
		return false
	}
	if a.kind == b.kind {
		return a.kind.scalar()
	}
	mixed := func(a, b kind) bool { return a == either && (b == aString || b == anInt) }
	return mixed(a.kind, b.kind) || mixed(b.kind, a.kind)
}
