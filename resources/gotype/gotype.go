// Package gotype has the common parts of packages that compile Go types into code faster than reflection: how JSON names the
// fields of a struct, and a cache of the compiled forms of types.
package gotype

import (
	"iter"
	"reflect"
	"strings"
	"sync"
)

// Field is a field of a struct as encoding/json encodes it.
type Field struct {
	reflect.StructField
	// JSON is the name; empty for a field that is Inline or Ignored.
	JSON string
	// Inline: the fields of this one, which is embedded and has no name of its own, count as fields of the struct.
	Inline bool
	// Ignored: JSON does not have the field.
	Ignored bool
	// OmitEmpty, OmitZero and Quoted are the options omitempty, omitzero and string.
	OmitEmpty, OmitZero, Quoted bool

	// Path is the index of the field from the outermost struct, for reflect.Value.FieldByIndex, and Start its offset there,
	// in bytes. Hidden: it is within an embedded struct that is not exported. Fields sets all three.
	Path   []int
	Start  uintptr
	Hidden bool
}

// FieldOf returns a field of a struct as encoding/json encodes it.
func FieldOf(f reflect.StructField) Field {
	out := Field{StructField: f}
	tag := f.Tag.Get("json")
	if out.Ignored = tag == "-" || !f.IsExported() && !f.Anonymous; out.Ignored {
		return out
	}
	name, options, _ := strings.Cut(tag, ",")
	if out.Inline = f.Anonymous && name == ""; out.Inline {
		return out
	}
	if out.JSON = name; name == "" {
		out.JSON = f.Name
	}
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "omitempty":
			out.OmitEmpty = true
		case "omitzero":
			out.OmitZero = true
		case "string":
			out.Quoted = true
		}
	}
	return out
}

// Fields yields the fields of a struct that JSON has, in the order in which encoding/json writes them. Those of structs that
// are Inline stand in their place; a field that is Inline and not a struct is yielded itself. Names may come twice:
// encoding/json chooses among them by its own rules.
func Fields(t reflect.Type) iter.Seq[Field] {
	return func(yield func(Field) bool) { fields(t, Field{}, yield) }
}

func fields(t reflect.Type, within Field, yield func(Field) bool) bool {
	for i := range t.NumField() {
		f := FieldOf(t.Field(i))
		f.Path, f.Start = append(within.Path[:len(within.Path):len(within.Path)], i), within.Start+f.Offset
		f.Hidden = within.Hidden || within.Inline && !within.IsExported()
		switch {
		case f.Ignored:
		case f.Inline && f.Type.Kind() == reflect.Struct:
			if !fields(f.Type, f, yield) {
				return false
			}
		case !yield(f):
			return false
		}
	}
	return true
}

// Memo caches the compiled forms of Go types. Their number is bounded by the types in the program, so nothing is dropped.
type Memo[V any] struct{ known sync.Map }

// Of returns the compiled form of a type, or compiles it. Several goroutines may do so at once: the first result is kept.
func (m *Memo[V]) Of(t reflect.Type, compile func(reflect.Type) V) V {
	known, ok := m.known.Load(t)
	if !ok {
		known, _ = m.known.LoadOrStore(t, compile(t))
	}
	return known.(V)
}

// Known returns the compiled form of a type, if there is one.
func (m *Memo[V]) Known(t reflect.Type) (v V, ok bool) {
	known, ok := m.known.Load(t)
	if ok {
		v = known.(V)
	}
	return v, ok
}

// Keep stores the compiled form of a type, unless there is one already.
func (m *Memo[V]) Keep(t reflect.Type, v V) { m.known.LoadOrStore(t, v) }
