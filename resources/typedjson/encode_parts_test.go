package typedjson_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/resources/typedjson"
)

// Lists and maps by themselves are written as encoding/json writes them, behind existing bytes.
func TestAppendParts(t *testing.T) {
	t.Cleanup(fastpath.JSONEncode.Turn(true))
	want := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return "x" + string(text)
	}
	for _, list := range [][]any{nil, {}, {"a", "<é>\x00\xff\"", int64(-3), 1.5, true, nil, []any{map[string]any{"b": "c", "a": "d"}}}} {
		if got, ok := typedjson.AppendList([]byte("x"), list); !ok || string(got) != want(list) {
			t.Errorf("%v: %s, %t", list, got, ok)
		}
	}
	for _, odd := range []any{math.NaN(), int32(1), struct{}{}} {
		if got, ok := typedjson.AppendList([]byte("x"), []any{odd}); ok || string(got) != "x" {
			t.Errorf("%v: %s, %t", odd, got, ok)
		}
	}
	for _, m := range []map[string]string{nil, {}, {"b": "c", "a": "<\u2028>", "\xff": "\\"}} {
		if got, ok := typedjson.AppendMap([]byte("x"), m); !ok || string(got) != want(m) {
			t.Errorf("%v: %s, %t", m, got, ok)
		}
	}
	fastpath.JSONEncode.Turn(false)
	_, list := typedjson.AppendList(nil, nil)
	_, m := typedjson.AppendMap(nil, nil)
	if list || m {
		t.Error("it is off")
	}
}
