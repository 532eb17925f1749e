package untypedjson

import (
	"strconv"
	"strings"

	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/resources/jsonscan"
)

// Decode reads an object without a Go type, as UnmarshalStrict of sigs.k8s.io/json reads a map: whole numbers are int64 where they fit,
// and others float64. When ok is false, it is not covered or invalid: a duplicate key, a text that is not JSON, or not an object.
//
// Strings of the object are parts of data, which must not be changed any more. A caller that keeps a string for longer than the object
// clones it, or keeps all of data with it.
func Decode(data []byte) (object map[string]any, ok bool) {
	if !fastpath.JSONDecode.On() {
		return nil, false
	}
	d := jsonscan.New(data)
	if object, ok = readObject(&d); !ok || !d.End() {
		fastpath.JSONDecode.Fallback()
		return nil, false
	}
	return object, true
}

func readObject(d *jsonscan.Scanner) (map[string]any, bool) {
	object := map[string]any{}
	ok := d.Members(func(key string) bool {
		// A duplicate member does not increase the length.
		n := len(object)
		v, ok := readValue(d)
		object[key] = v
		return ok && len(object) > n
	})
	return object, ok
}

func readValue(d *jsonscan.Scanner) (v any, ok bool) {
	switch d.Peek() {
	case '{':
		return readObject(d)
	case '[':
		list := []any{}
		ok = d.Elements(func() bool {
			item, ok := readValue(d)
			list = append(list, item)
			return ok
		})
		return list, ok
	case '"':
		return d.Text()
	case 't':
		return true, d.Word("true")
	case 'f':
		return false, d.Word("false")
	case 'n':
		return nil, d.Null()
	}
	text, _, ok := d.Number()
	if !ok {
		return nil, false
	}
	if !strings.Contains(text, ".") {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, true
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil
}
