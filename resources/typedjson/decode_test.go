package typedjson_test

import (
	"os"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/rowlock/rowlock/resources/builtin/builtintest"
	"github.com/rowlock/rowlock/resources/typedjson"
)

// decodeLike decodes data by upstream's package and compares the result with Decode's, which need not cover it.
func decodeLike(t testing.TB, data []byte, typ reflect.Type) (covered bool) {
	t.Helper()
	got, want := reflect.New(typ).Interface(), reflect.New(typ).Interface()
	ok := typedjson.Decode(data, got)
	strict, err := kjson.UnmarshalStrict(data, want)
	if !ok {
		return false
	}
	if err != nil || len(strict) > 0 {
		t.Fatalf("%s\nis taken; it has errors: %v, %v", data, err, strict)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s\nis taken for something else: %s", data, cmp.Diff(want, got))
	}
	return true
}

// Every object of every type is read, with the result of upstream's decoder.
func TestDecodeEveryType(t *testing.T) {
	for _, s := range builtintest.StoredTypes(t) {
		t.Run(s.GroupResource.String(), func(t *testing.T) {
			obj, err := s.Scheme.New(s.StorageKind())
			if err != nil {
				t.Fatal(err)
			}
			for seed := range int64(20) {
				data := builtintest.Random(t, s, seed)
				if !decodeLike(t, data, reflect.TypeOf(obj).Elem()) {
					t.Fatalf("cannot read %s", data)
				}
			}
		})
	}
}

// Unusual input is left to upstream's decoder, or read with the same result.
func TestDecodeUnusual(t *testing.T) {
	pod := reflect.TypeFor[corev1.Pod]()
	for _, tc := range []struct {
		text    string
		covered bool
	}{
		{`{}`, true},
		{` { "kind" : "Pod" , "metadata" : { } } ` + "\n", true},
		{`{"metadata":null,"spec":null}`, true},
		{`{"metadata":{"labels":{},"finalizers":[],"ownerReferences":null}}`, true},
		{`{"metadata":{"labels":{"a":null}}}`, true},
		{`{"metadata":{"creationTimestamp":null,"deletionTimestamp":null}}`, true},
		{`{"metadata":{"creationTimestamp":"2026-01-02T03:04:05+02:00"}}`, true},
		{`{"metadata":{"name":"\u00e9\ud83d\ude00\/\"\\\b\f\n\r\t"}}`, true},
		{`{"metadata":{"n\u0061me":"a"}}`, true},
		{`{"spec":{"containers":[null,{"args":["a",null]}]}}`, true},
		{`{"spec":{"priority":-2147483648,"hostNetwork":true}}`, true},
		{`{"spec":{"containers":[{"resources":{"limits":{"cpu":1,"memory":"1Gi"}}}]}}`, true},
		{`{"metadata":{"managedFields":[{"fieldsV1":{"f:a": {"f:b" :{}}}}]}}`, true},

		{``, false}, {`null`, false}, {`[]`, false}, {`{`, false}, {`{}{}`, false}, {`{},`, false}, {"\ufeff{}", false}, {"{}\x00", false},
		{`{"metadata":{"name":"a","name":"b"}}`, false},
		{`{"metadata":{"labels":{"a":"b","a":"b"}}}`, false},
		{`{"Metadata":{}}`, false}, {`{"unknown":1}`, false}, {`{"metadata":{"creationTimestamp":""}}`, false},
		{`{"metadata":{"name":1}}`, false}, {`{"metadata":{"name":"a}}`, false}, {"{\"metadata\":{\"name\":\"a\nb\"}}", false},
		{"{\"metadata\":{\"name\":\"\xff\"}}", false}, {`{"metadata":{"name":"\ud800"}}`, false}, {`{"metadata":{"name":"\x"}}`, false},
		{`{"metadata":{"name":"\u12"}}`, false}, {`{"metadata":{"name":"\`, false}, {`{"metadata":{"name":"\u`, false},
		{`{"spec":{"priority":1.0}}`, false}, {`{"spec":{"priority":1e2}}`, false}, {`{"spec":{"priority":01}}`, false},
		{`{"spec":{"priority":-}}`, false}, {`{"spec":{"priority":+1}}`, false}, {`{"spec":{"priority":2147483648}}`, false},
		{`{"spec":{"priority":"1"}}`, false}, {`{"spec":{"hostNetwork":"true"}}`, false}, {`{"spec":{"hostNetwork":truee}}`, false},
		{`{"spec":{"containers":{}}}`, false}, {`{"spec":{"containers":[{}}}`, false}, {`{"spec":{"containers":[,]}}`, false},
		{`{"spec":{"containers":[{},]}}`, false}, {`{"spec":{},}`, false}, {`{"spec" {}}`, false}, {`{"spec":nul}`, false},
		{`{"metadata":{"managedFields":[{"fieldsV1":{"f:a":{"f:b":{}}]}}`, false},
		{`{"metadata":{"managedFields":[{"fieldsV1":{"f:a":01}}]}}`, false},
	} {
		if covered := decodeLike(t, []byte(tc.text), pod); covered != tc.covered {
			t.Errorf("%s: covered: %t", tc.text, covered)
		}
	}
}

// Types with their own rules are not covered, rather than read by the wrong ones.
func TestDecodeOtherTypes(t *testing.T) {
	type embedded struct{ Inner string }
	type One struct{ A string }
	type Two struct{ A string }
	type twice struct {
		One
		Two
	}
	type text struct {
		A int `json:",string"`
	}
	for _, obj := range []any{
		new(any), new(string), new(map[string]string), nil, struct{}{}, new(struct{ A any }), new(struct{ A float32 }),
		new(struct{ A uint8 }), new(text), new(struct{ *embedded }), new(struct{ A map[int]string }), new(twice),
	} {
		if typedjson.Decode([]byte(`{}`), obj) {
			t.Errorf("%T is covered", obj)
		}
	}
	if !typedjson.Decode([]byte(`{}`), new(struct{ A string })) {
		t.Error("nothing is covered")
	}
}

func FuzzDecode(f *testing.F) {
	pod, err := os.ReadFile("../../server/codec/transcode/testdata/pod.json")
	if err != nil {
		f.Fatal(err)
	}
	var types []reflect.Type
	for i, s := range builtintest.StoredTypes(f) {
		obj, err := s.Scheme.New(s.StorageKind())
		if err != nil {
			f.Fatal(err)
		}
		types = append(types, reflect.TypeOf(obj).Elem())
		if i%7 == 0 {
			f.Add(uint8(i), builtintest.Random(f, s, int64(i)))
		}
		if s.GroupResource.String() == "pods" {
			f.Add(uint8(i), pod)
		}
	}
	f.Fuzz(func(t *testing.T, n uint8, data []byte) {
		decodeLike(t, data, types[int(n)%len(types)])
	})
}

func BenchmarkDecodePod(b *testing.B) {
	data, err := os.ReadFile("../../server/codec/transcode/testdata/pod.json")
	if err != nil {
		b.Fatal(err)
	}
	b.Run("typedjson", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if !typedjson.Decode(data, new(corev1.Pod)) {
				b.Fatal("cannot read it")
			}
		}
	})
	b.Run("strict", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if strict, err := kjson.UnmarshalStrict(data, new(corev1.Pod)); err != nil || len(strict) > 0 {
				b.Fatal(err, strict)
			}
		}
	})
}
