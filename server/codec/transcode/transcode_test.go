package transcode_test

import (
	"bytes"
	"os"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin/builtintest"
	"github.com/rowlock/rowlock/resources/typedjson"
	"github.com/rowlock/rowlock/server/codec/transcode"
)

// uncovered are the types with floating-point numbers, or Go values without protobuf: those in the schemas of CustomResourceDefinitions.
var uncovered = map[string]bool{"customresourcedefinitions.apiextensions.k8s.io": true}

type message interface {
	runtime.Object
	Marshal() ([]byte, error)
}

// compare compares the message made from JSON with the one from upstream's types.
func compare(t testing.TB, s *resources.Served, data []byte) {
	t.Helper()
	obj, err := s.Scheme.New(s.StorageKind())
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(data, []byte(":null")) { // it may be a zero time, which only the decoder of stored objects supports
		if !typedjson.DecodeStored(data, obj) {
			t.Fatalf("cannot read %s", data)
		}
	} else if err := kjson.UnmarshalCaseSensitivePreserveInts(data, obj); err != nil {
		t.Fatal(err)
	}
	want, err := obj.(message).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	m, err := transcode.For(reflect.TypeOf(obj).Elem())
	if err != nil {
		if !uncovered[s.GroupResource.String()] {
			t.Fatal(err)
		}
		return
	}
	prefix := []byte("before")
	got, ok := m.Append(prefix, data)
	if !ok {
		t.Fatalf("cannot say what the message is of %s", data)
	}
	if got, ok = bytes.CutPrefix(got, prefix); !ok || !bytes.Equal(got, want) {
		t.Fatalf("the message of %s is\n%x, want\n%x", data, got, want)
	}
}

// TestAgreesWithUpstream compares the messages of every built-in type with those of upstream's generated code.
func TestAgreesWithUpstream(t *testing.T) {
	for _, s := range builtintest.StoredTypes(t) {
		t.Run(s.GroupResource.String(), func(t *testing.T) {
			for seed := range int64(50) {
				compare(t, s, builtintest.Random(t, s, seed))
			}
		})
	}
}

// FuzzAgreesWithUpstream does the same with random objects.
func FuzzAgreesWithUpstream(f *testing.F) {
	types := builtintest.StoredTypes(f)
	f.Add(int64(1), uint16(1))
	f.Fuzz(func(t *testing.T, seed int64, kind uint16) {
		s := types[int(kind)%len(types)]
		compare(t, s, builtintest.Random(t, s, seed))
	})
}

// FuzzGarbage checks that invalid JSON, and JSON of other types, is rejected without a panic.
func FuzzGarbage(f *testing.F) {
	pod, err := transcode.For(reflect.TypeFor[corev1.Pod]())
	if err != nil {
		f.Fatal(err)
	}
	for _, data := range []string{
		``, `{`, `{}`, `{"metadata":null}`, `{"metadata":{"labels":{"b":"","a":""}}}`, `{"metadata":{},"metadata":{}}`,
		`{"metadata":{"name":"\ud83d\ude00\u00e9\n"}}`, `{"metadata":{"name":"\ud83d"}}`, `{"metadata":{"name":7}}`,
		`{"metadata":{"creationTimestamp":"now"}}`, `{"spec":{"containers":[{"ports":[{"containerPort":-1}]},null]}}`,
		`{"spec":{"containers":{}}}`, `{"spec": {}}`, `{"spec":[}`, `{"a"}`, `{"a":}`, `{"a":"}`, `{"a":tru{}e}`, `{"a":1]}`,
	} {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := []byte("before")
		out, ok := pod.Append(before, data)
		if !bytes.HasPrefix(out, before) || !ok && len(out) != len(before) {
			t.Fatalf("%v, %q", ok, out)
		}
		if ok && new(corev1.Pod).Unmarshal(out[len(before):]) != nil {
			t.Fatalf("%x is not a message", out[len(before):])
		}
	})
}

// BenchmarkPod measures converting the JSON of a Pod of 4.8 KB.
func BenchmarkPod(b *testing.B) {
	data, err := os.ReadFile("testdata/pod.json")
	if err != nil {
		b.Fatal(err)
	}
	m, err := transcode.For(reflect.TypeFor[corev1.Pod]())
	if err != nil {
		b.Fatal(err)
	}
	data = bytes.TrimSpace(data)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	var out []byte
	for b.Loop() {
		var ok bool
		if out, ok = m.Append(out[:0], data); !ok {
			b.Fatal("cannot say what its message is")
		}
	}
}
