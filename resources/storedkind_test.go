package resources_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin/builtintest"
	"github.com/rowlock/rowlock/resources/fastpath"
)

// FuzzStoredKind: a stored object, in this release's form or with another order of keys, is decoded the same whether its
// kind is read from the first bytes or found by upstream's serializer.
func FuzzStoredKind(f *testing.F) {
	types := builtintest.StoredTypes(f)
	for i := range types {
		f.Add(int64(i), uint16(i), uint8(i))
	}
	f.Fuzz(func(t *testing.T, seed int64, kind uint16, form uint8) {
		s := types[int(kind)%len(types)]
		data := builtintest.Random(t, s, seed)
		rest, known := bytes.CutPrefix(data, s.Head(s.StorageVersion))
		if !known {
			t.Fatalf("%.100s does not begin with its kind", data)
		}
		switch form % 4 {
		case 1: // an encoder with sorted keys
			data = append([]byte(`{"apiVersion":"`+s.StorageVersion.String()+`","kind":"`+s.Type.Kind+`",`), rest...)
		case 2: // an unknown field
			data = append(s.Head(s.StorageVersion), append([]byte(`"unknown":{"a":[1]},`), rest...)...)
		case 3: // the kind is elsewhere
			data = append(append([]byte{'{'}, rest[:len(rest)-1]...), `,"kind":"`+s.Type.Kind+`","apiVersion":"`+s.StorageVersion.String()+`"}`...)
		}
		decode := func(on bool) runtime.Object {
			defer fastpath.StoredKind.Turn(on)()
			obj, err := s.DecodeStored(resources.LoadObject(resources.Key{}, 1, bytes.Clone(data), nil, nil))
			if err != nil {
				t.Fatalf("fast path on: %t: %v: %s", on, err, data)
			}
			return obj
		}
		before := fastpath.StoredKind.Fallbacks()
		fast := decode(true)
		if left := fastpath.StoredKind.Fallbacks() > before; left != (form%4 == 1 || form%4 == 3) {
			t.Errorf("left to the serializer: %t: %.100s", left, data)
		}
		if diff := cmp.Diff(encoded(t, decode(false)), encoded(t, fast)); diff != "" {
			t.Errorf("%s (-serializer +fast path):\n%s", data, diff)
		}
	})
}

// Upstream's serializer refuses data that cannot be decoded, with the key of the object, whether the path is on or off.
func TestStoredGarbage(t *testing.T) {
	for _, s := range builtintest.StoredTypes(t) {
		if s.GroupResource.String() != "secrets" {
			continue
		}
		for _, data := range []string{`{"kind":"Secret","apiVersion":"v1","metadata":[]}`, `{"kind":"Secret","apiVersion":"v1","metadata":{}`, `{}`, ``} {
			var said [2]string
			for i, on := range []bool{true, false} {
				back := fastpath.StoredKind.Turn(on)
				_, err := s.DecodeStored(resources.LoadObject(s.KeyOf("n", "a"), 1, []byte(data), nil, nil))
				back()
				if err != nil {
					said[i] = err.Error()
				}
			}
			if said[0] != said[1] || data != "{}" && !strings.HasPrefix(said[0], "decode "+s.KeyOf("n", "a").String()) {
				t.Errorf("%q: %q by the fast path, %q without", data, said[0], said[1])
			}
		}
	}
}

func encoded(t *testing.T, obj runtime.Object) string {
	t.Helper()
	var out bytes.Buffer
	if err := json.NewEncoder(&out).Encode(obj); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
