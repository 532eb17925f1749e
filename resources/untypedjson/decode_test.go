package untypedjson_test

import (
	"reflect"
	"testing"

	kjson "sigs.k8s.io/json"

	"github.com/rowlock/rowlock/resources/builtin/builtintest"
	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/resources/untypedjson"
)

// decodeLike decodes data by upstream's package and compares the result with Decode's, which need not cover it.
func decodeLike(t testing.TB, data []byte) (covered bool) {
	t.Helper()
	got, ok := untypedjson.Decode(data)
	if !ok {
		return false
	}
	var want map[string]any
	strict, err := kjson.UnmarshalStrict(data, &want)
	if err != nil || len(strict) > 0 {
		t.Fatalf("%s\nis taken; it has errors: %v, %v", data, err, strict)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s\nis taken for %#v, it is %#v", data, got, want)
	}
	return true
}

// Every object is read, with the result of upstream's decoder.
func TestDecode(t *testing.T) {
	for _, s := range builtintest.StoredTypes(t) {
		for seed := range int64(3) {
			if data := builtintest.Random(t, s, seed); !decodeLike(t, data) {
				t.Fatalf("cannot read %s", data)
			}
		}
	}
	for text, covered := range map[string]bool{
		`{}`: true, ` { "a" : [ ] , "b" : { } , "" : null } `: true, `{"a":[1,-2,3.0,0.5,-0,-0.0,1e3,1E-2,true,false,null,"\u00e9\n\ud83d\ude00"]}`: true,
		`{"a":9223372036854775807,"b":-9223372036854775808,"c":9223372036854775808,"d":123456789012345678901234567890}`: true,
		`{"a":{"b":1},"c":{"b":1}}`: true, `{"a":1e400}`: false, `{"a":1,"a":1}`: false, `{"a":{"b":null,"b":null}}`: false,
		`null`: false, `[]`: false, `1`: false, ``: false, `{`: false, `{"a":1}{}`: false, `{"a":1,}`: false, `{"a":[1,]}`: false, `{"a":01}`: false,
		`{"a":"\ud800"}`: false, "{\"a\":\"\xff\"}": false, "{\"\xff\":1}": false, "{\"a\":\"\n\"}": false, `{"a":nul}`: false, "{}\x00": false,
	} {
		if got := decodeLike(t, []byte(text)); got != covered {
			t.Errorf("%s is taken: %v", text, got)
		}
	}
}

// With the fast path off, nothing is read.
func TestIsSwitched(t *testing.T) {
	defer fastpath.JSONDecode.Turn(false)()
	if _, ok := untypedjson.Decode([]byte(`{}`)); ok {
		t.Error("an object is read by a fast path that is off")
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":[1,-2.5e7,{"b":"é\n"},[],null,true,false],"b":{"":""}}`, `{"a":1,"a":2}`, `{"a":-0}`, `{"a":18446744073709551616}`,
		`{"\ud83d\ude00":"\ud83d"}`, "{\"a\" :\t1 }\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) { decodeLike(t, data) })
}
