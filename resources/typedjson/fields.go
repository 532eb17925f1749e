package typedjson

import (
	"fmt"
	"reflect"
	"strings"
)

// field is a field of a struct as JSON has it.
type field struct {
	name      string
	typ       reflect.Type
	offset    uintptr // from the beginning of the outermost struct
	omitEmpty bool
	omitZero  bool
}

// fieldsOf returns the fields of a struct in the order in which encoding/json writes them. Those of an embedded struct
// that has no name of its own are among them. The error names what is not covered: names that stand for two fields, of
// which encoding/json chooses one by rules of its own, embedded pointers, the option "string".
func fieldsOf(t reflect.Type) ([]field, error) {
	var out []field
	if err := appendFields(&out, t, 0); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, f := range out {
		if seen[f.name] {
			return nil, fmt.Errorf("%s has two fields %q", t, f.name)
		}
		seen[f.name] = true
	}
	return out, nil
}

func appendFields(out *[]field, t reflect.Type, base uintptr) error {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		if tag == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if f.Anonymous && name == "" {
			if f.Type.Kind() != reflect.Struct || !f.IsExported() {
				return fmt.Errorf("%s embeds %s", t, f.Type)
			}
			if err := appendFields(out, f.Type, base+f.Offset); err != nil {
				return err
			}
			continue
		}
		if name == "" {
			name = f.Name
		}
		next := field{name: name, typ: f.Type, offset: base + f.Offset}
		for option := range strings.SplitSeq(options, ",") {
			switch option {
			case "omitempty":
				next.omitEmpty = true
			case "omitzero":
				next.omitZero = true
			case "string":
				return fmt.Errorf("%s.%s is written as a string", t, f.Name)
			}
		}
		if !plainKey(name) || !f.IsExported() {
			return fmt.Errorf("%s.%s has the name %q", t, f.Name, name)
		}
		*out = append(*out, next)
	}
	return nil
}

// plainKey: the name is written as it is, whatever escapes its reader or writer knows. Names with quotes of any kind are
// not names to encoding/json.
func plainKey(name string) bool {
	for _, c := range []byte(name) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte("\"'`\\<>&", c) >= 0 {
			return false
		}
	}
	return name != ""
}
