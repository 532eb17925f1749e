package handlers

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/types"
)

// FuzzMergeJSON compares our merge with the library's.
func FuzzMergeJSON(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"a":"b"}`, `{"a":"c"}`}, {`{"a":"b"}`, `{"b":"c"}`}, {`{"a":"b"}`, `{"a":null}`}, {`{"a":"b","b":"c"}`, `{"a":null}`},
		{`{"a":["b"]}`, `{"a":"c"}`}, {`{"a":"c"}`, `{"a":["b"]}`}, {`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`}, {`{"e":null}`, `{"a":1}`}, {`{}`, `{"a":{"bb":{"ccc":null}}}`},
		{`{"a":{"b":1},"c":[1,2]}`, `{"a":null,"c":{"x":[null,{"y":null}]}}`}, {`{"a\"b":1}`, `{"a\"b":{"c":2}}`}, {`{"a":1}`, `{}`}, {`{"a":{"b":1}}`, `{"a":[{"c":null}]}`}, {`{"a":1}`, `{"a":[{"c":null}]}`},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, doc, patch string) {
		if !isJSONObject([]byte(doc)) || !isJSONObject([]byte(patch)) || twice(doc) || twice(patch) {
			return // skip all but two objects without duplicate keys
		}
		if !utf8.ValidString(doc) || !utf8.ValidString(patch) {
			return // the library replaces all invalid characters by the same one, and then confuses keys
		}
		want, err := jsonpatch.MergePatch([]byte(doc), []byte(patch))
		if err != nil {
			return // the library rejects it
		}
		got := mergeJSON([]byte(doc), gjson.Parse(patch))
		if diff := cmp.Diff(decoded(t, want), decoded(t, got)); diff != "" {
			t.Errorf("%s merged with %s (-want +got):\n%s", doc, patch, diff)
		}
	})
}

func decoded(t *testing.T, data []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%q: %v", data, err)
	}
	return v
}

// twice tells whether an object has a duplicate key, whose value would be undefined.
func twice(doc string) bool {
	found := false
	var walk func(gjson.Result)
	walk = func(v gjson.Result) {
		seen := map[string]bool{}
		v.ForEach(func(key, value gjson.Result) bool {
			if v.IsObject() {
				found = found || seen[key.Str]
				seen[key.Str] = true
			}
			if value.IsObject() || value.IsArray() {
				walk(value)
			}
			return true
		})
	}
	walk(gjson.Parse(doc))
	return found
}

// A patch that is not UTF-8 is left to the library: its keys may differ from their text.
func TestMergeFastTakesUTF8Alone(t *testing.T) {
	p := &patcher{typ: types.MergePatchType, body: []byte("{\"metadata\":{\"annotations\":{\"\xff\":null}}}")}
	if _, ok := p.mergeFast([]byte(`{"metadata":{"annotations":{"\ufffd":"a"}}}`)); ok {
		t.Error("it is taken")
	}
}
