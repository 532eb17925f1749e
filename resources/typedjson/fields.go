package typedjson

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/rowlock/rowlock/resources/gotype"
)

// fieldsOf returns the fields of a struct in the order in which encoding/json writes them. The error names a feature that
// is not covered: names that two fields have, among which encoding/json chooses by its own rules, an embedded type that is
// not an exported struct, the option "string".
func fieldsOf(t reflect.Type) ([]gotype.Field, error) {
	var out []gotype.Field
	seen := map[string]bool{}
	for f := range gotype.Fields(t) {
		switch {
		case f.Inline || f.Hidden || !f.IsExported():
			return nil, fmt.Errorf("%s embeds %s", t, f.Type)
		case f.Quoted:
			return nil, fmt.Errorf("%s.%s is written as a string", t, f.Name)
		case !plainKey(f.JSON):
			return nil, fmt.Errorf("%s.%s has the name %q", t, f.Name, f.JSON)
		case seen[f.JSON]:
			return nil, fmt.Errorf("%s has two fields %q", t, f.JSON)
		}
		seen[f.JSON] = true
		out = append(out, f)
	}
	return out, nil
}

// plainKey reports whether the name is written unchanged, whatever escapes its reader or writer knows. encoding/json does
// not accept names with quotes of any kind.
func plainKey(name string) bool {
	for _, c := range []byte(name) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte("\"'`\\<>&", c) >= 0 {
			return false
		}
	}
	return name != ""
}
