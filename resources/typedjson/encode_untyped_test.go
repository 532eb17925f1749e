package typedjson

import (
	"encoding/json"
	"math"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"
)

// FuzzUntyped: an object without a Go type is written as encoding/json writes it, whatever JSON it was read from.
func FuzzUntyped(f *testing.F) {
	for _, text := range []string{`{}`, `{"b":1,"a":1.0,"c":-0.0,"d":1e21,"e":1e-7,"f":9223372036854775807,"g":1e300}`,
		`{"<a>":"& \u2028 \u0001 \ud800 ä \" \\ \n\r\t\b\f/","":""}`, `{"a":[],"b":{},"c":[null,[true,false,{"x":null}]]}`,
		`{"apiVersion":"v1","kind":"List","items":[]}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		u := &unstructured.Unstructured{}
		if kjson.UnmarshalCaseSensitivePreserveInts(text, &u.Object) == nil && !compareEncoding(t, u) && len(text) < maxUntyped {
			t.Errorf("%s is not covered", text)
		}
	})
}

// Values that no JSON decodes to are left to encoding/json, or fail.
func TestUntypedOddities(t *testing.T) {
	deep := any("")
	for range maxUntyped + 1 {
		deep = []any{deep}
	}
	for _, v := range []any{1, float32(1), json.Number("1"), math.NaN(), math.Inf(1), map[string]string{}, deep} {
		if _, ok := Append(nil, &unstructured.Unstructured{Object: map[string]any{"a": v}}); ok {
			t.Errorf("%T is covered", v)
		}
	}
	for _, v := range []any{nil, map[string]any(nil), []any(nil), "\xff", map[string]any{"\xff": 1.5}} {
		if !compareEncoding(t, &unstructured.Unstructured{Object: map[string]any{"a": v}}) {
			t.Errorf("%#v is not covered", v)
		}
	}
	compareEncoding(t, &unstructured.Unstructured{})
}
