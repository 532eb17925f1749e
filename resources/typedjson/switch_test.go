package typedjson

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// A value that the encoder leaves to encoding/json is counted while the path is on. While it is off, it is not entered: no writer
// is made, and nothing is counted.
func TestEncodingIsSwitched(t *testing.T) {
	type plain struct {
		Text string `json:"text"`
	}
	type covered struct {
		Plain  plain   `json:"plain"`
		Number float64 `json:"number"`
	}
	encoded, nan := &covered{plain{"a"}, 7}, &covered{Number: math.NaN()}
	count := func(obj any) (out []byte, ok bool, fallbacks int64) {
		before := fastpath.JSONEncode.Fallbacks()
		out, ok = Append([]byte("before"), obj)
		return out, ok, fastpath.JSONEncode.Fallbacks() - before
	}
	back := fastpath.JSONEncode.Turn(false)
	for _, obj := range []any{encoded, nan} {
		if out, ok, n := count(obj); ok || string(out) != "before" || n != 0 {
			t.Errorf("off: %q, %t, %d fallbacks", out, ok, n)
		}
	}
	if _, made := encodings.Known(reflect.TypeFor[covered]()); made {
		t.Error("a writer was made while the path was off")
	}
	back()
	if out, ok, n := count(encoded); !ok || string(out) != `before{"plain":{"text":"a"},"number":7}` || n != 0 {
		t.Errorf("on: %q, %t, %d fallbacks", out, ok, n)
	}
	if out, ok, n := count(nan); ok || string(out) != "before" || n != 1 {
		t.Errorf("on, not a number: %q, %t, %d fallbacks", out, ok, n)
	}
	if _, made := encodings.Known(reflect.TypeFor[covered]()); !made {
		t.Error("no writer was made while the path was on")
	}
}

// AppendStored leaves objects to encoding/json while the path is off, except those with JSON from clients, which only this package
// leaves unchanged.
func TestStoredEncodingIsSwitched(t *testing.T) {
	type sent struct {
		Raw    json.RawMessage `json:"raw"`
		Number float64         `json:"number"`
	}
	defer fastpath.JSONEncode.Turn(false)()
	for _, c := range []struct {
		obj  *sent
		want string
	}{
		{&sent{Raw: json.RawMessage(`{"a":1}`)}, ""},
		{&sent{Raw: json.RawMessage(`{"a": 1}`)}, `{"raw":{"a": 1},"number":0}`},
		{&sent{Raw: json.RawMessage(`{"a": 1}`), Number: math.NaN()}, ""},
	} {
		before := fastpath.JSONEncode.Fallbacks()
		out, asSent, ok := AppendStored(nil, c.obj)
		if string(out) != c.want || ok != (c.want != "") || asSent != ok {
			t.Errorf("%s: %q, as sent: %t, %t", c.obj.Raw, out, asSent, ok)
		}
		if n := fastpath.JSONEncode.Fallbacks() - before; n != 0 {
			t.Errorf("%s: %d fallbacks were counted of a path that is off", c.obj.Raw, n)
		}
	}
}

// The same for the decoder.
func TestDecodingIsSwitched(t *testing.T) {
	type covered struct {
		Text string `json:"text"`
	}
	decode := func(data string) (ok bool, fallbacks int64) {
		before := fastpath.JSONDecode.Fallbacks()
		for _, read := range []func([]byte, any) bool{Decode, DecodeStored} {
			var c covered
			ok = read([]byte(data), &c)
			if ok && c.Text != "a" {
				t.Errorf("read %+v of %s", c, data)
			}
		}
		return ok, fastpath.JSONDecode.Fallbacks() - before
	}
	back := fastpath.JSONDecode.Turn(false)
	for _, data := range []string{`{"text":"a"}`, `{"nosuch":1}`} {
		if ok, n := decode(data); ok || n != 0 {
			t.Errorf("off: %s: %t, %d fallbacks", data, ok, n)
		}
	}
	if _, made := readers.Known(reflect.TypeFor[covered]()); made {
		t.Error("a reader was made while the path was off")
	}
	back()
	if ok, n := decode(`{"text":"a"}`); !ok || n != 0 {
		t.Errorf("on: %t, %d fallbacks", ok, n)
	}
	if ok, n := decode(`{"nosuch":1}`); ok || n != 2 {
		t.Errorf("on, an unknown field: %t, %d fallbacks", ok, n)
	}
}
