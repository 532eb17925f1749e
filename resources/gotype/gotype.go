// Package gotype says of Go types what all need that compile them into something faster than reflection: how JSON has the
// fields of a struct, and where what was compiled of a type is kept.
package gotype

import (
	"iter"
	"reflect"
	"strings"
	"sync"
)

// Field is a field of a struct as encoding/json has it.
type Field struct {
	reflect.StructField
	// JSON is the name; empty of a field that is Inline or Ignored.
	JSON string
	// Inline: the fields of this one, which is embedded and has no name of its own, are among those of the struct.
	Inline bool
	// Ignored: JSON does not have it.
	Ignored bool
	// OmitEmpty, OmitZero and Quoted are the options omitempty, omitzero and string.
	OmitEmpty, OmitZero, Quoted bool

	// Path is the index of the field from the outermost struct, for reflect.Value.FieldByIndex, and Start where it begins
	// there, in bytes. Hidden: it is within an embedded struct that is not exported. All three are set by Fields.
	Path   []int
	Start  uintptr
	Hidden bool
}

// FieldOf returns how encoding/json has a field of a struct.
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
// are Inline stand in their place; what is Inline and not a struct is yielded itself. Names may come twice: encoding/json
// chooses among them by rules of its own.
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

// Memo keeps what was compiled of each Go type. There are as many as there are types in the program, so nothing is forgotten.
type Memo[V any] struct{ known sync.Map }

// Of returns what was compiled of a type, or compiles it. Several may do so at once: the first is kept.
func (m *Memo[V]) Of(t reflect.Type, compile func(reflect.Type) V) V {
	known, ok := m.known.Load(t)
	if !ok {
		known, _ = m.known.LoadOrStore(t, compile(t))
	}
	return known.(V)
}

// Known returns what was compiled of a type, if something was.
func (m *Memo[V]) Known(t reflect.Type) (v V, ok bool) {
	known, ok := m.known.Load(t)
	if ok {
		v = known.(V)
	}
	return v, ok
}

// Keep keeps what was compiled of a type, unless something is kept already.
func (m *Memo[V]) Keep(t reflect.Type, v V) { m.known.LoadOrStore(t, v) }
