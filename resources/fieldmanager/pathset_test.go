package fieldmanager

import (
	"bytes"
	"fmt"
	"math/rand"
	"testing"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// randomPath makes a path of elements of all forms.
func randomPath(r *rand.Rand) fieldpath.Path {
	words := []string{"a", "b", "b-c", "b.c", "bc", "", "Z"}
	scalar := func() value.Value {
		return value.NewValueInterface([]any{words[r.Intn(len(words))], int64(r.Intn(12)), -int64(r.Intn(3)), r.Intn(2) == 0}[r.Intn(4)])
	}
	var path fieldpath.Path
	for range 1 + r.Intn(3) {
		switch r.Intn(4) {
		case 0:
			fields := value.FieldList{{Name: "n" + words[r.Intn(3)], Value: scalar()}}
			if r.Intn(2) == 0 {
				fields = append(fields, value.Field{Name: "o", Value: scalar()})
			}
			fields.Sort()
			path = append(path, fieldpath.PathElement{Key: &fields})
		case 1:
			v := scalar()
			path = append(path, fieldpath.PathElement{Value: &v})
		default:
			path = append(path, fieldpath.FieldNameElement(words[r.Intn(len(words))]))
		}
	}
	return path
}

func randomSet(r *rand.Rand) *fieldpath.Set {
	s := fieldpath.NewSet()
	for range r.Intn(12) {
		s.Insert(randomPath(r))
	}
	return s
}

// TestPathSetAgreesWithFieldpath runs the operations of both kinds of set on the same paths.
func TestPathSetAgreesWithFieldpath(t *testing.T) {
	ours := func(s *fieldpath.Set) pathSet {
		text, err := s.ToJSON()
		if err != nil {
			t.Fatal(err)
		}
		out, ok := parsePathSet(nil, string(text))
		if !ok {
			t.Fatalf("not read: %s", text)
		}
		if again := out.appendJSON(nil); !bytes.Equal(text, again) {
			t.Fatalf("%s became %s", text, again)
		}
		if size := out.size(); size < len(text) {
			t.Errorf("size %d of %d bytes", size, len(text))
		}
		return out
	}
	for seed := range int64(2000) {
		r := rand.New(rand.NewSource(seed))
		x, y := randomSet(r), randomSet(r)
		a, b := ours(x), ours(y)
		same := func(op string, want *fieldpath.Set, got pathSet) {
			t.Helper()
			text, _ := want.ToJSON()
			if string(text) != string(got.appendJSON(nil)) {
				t.Fatalf("seed %d: %s %s %s: %s, want %s", seed, a.appendJSON(nil), op, b.appendJSON(nil), got.appendJSON(nil), text)
			}
		}
		same("union", x.Union(y), a.plus(b))
		same("difference", x.Difference(y), a.minus(b))
		same("recursive difference", x.RecursiveDifference(y), a.minusTrees(b))
		overlap := !x.Intersection(y).Empty()
		if a.meets(b) != overlap {
			t.Fatalf("seed %d: %s meets %s: %v", seed, a.appendJSON(nil), b.appendJSON(nil), !overlap)
		}
		if meets, ok := scanPathSet(string(a.appendJSON(nil)), anySet, b); !ok || meets != overlap {
			t.Fatalf("seed %d: scan of %s for %s: %v %v", seed, a.appendJSON(nil), b.appendJSON(nil), meets, ok)
		}
	}
}

// TestElementOrder compares the order of elements with that of fieldpath.
func TestElementOrder(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for range 5000 {
		x, y := randomPath(r)[0], randomPath(r)[0]
		sx, _ := fieldpath.SerializePathElement(x)
		sy, _ := fieldpath.SerializePathElement(y)
		quote := func(s string) string { return fmt.Sprintf("%q", s)[1 : len(fmt.Sprintf("%q", s))-1] }
		if want, got := x.Compare(y), compareElements(quote(sx), quote(sy)); want != got {
			t.Fatalf("%s and %s: %d, want %d", sx, sy, got, want)
		}
	}
}

// TestParsePathSetForeign lists texts that are left to upstream: any text that is not exactly in the written form.
func TestParsePathSetForeign(t *testing.T) {
	for _, text := range []string{
		``, `null`, `[]`, `{`, `{}}`, ` {}`, `{ }`, `{".":{}}`, `{"f:a":{}`, `{"f:a":{},}`, `{"f:a":null}`, `{"f:a":{".":{}}}`,
		`{"f:b":{},"f:a":{}}`, `{"f:a":{},"f:a":{}}`, `{"f:a":{"f:b":{},".":{}}}`, `{"a":{}}`, `{"x:a":{}}`, `{"i:0":{}}`, `{"f:\u0061":{}}`,
		`{"f:é":{}}`, `{"f:a\"b":{}}`, `{"k:{}":{}}`, `{"k:{\"b\":1,\"a\":2}":{}}`, `{"k:{\"a\":1.5}":{}}`, `{"k:{\"a\":01}":{}}`, `{"k:{\"a\":-0}":{}}`,
		`{"k:{\"a\":null}":{}}`, `{"k:{\"a\":\"<\"}":{}}`, `{"k:{\"a\":1234567890123456}":{}}`, `{"v:1e3":{}}`, `{"v:\"a\\\"b\"":{}}`, `{"v:":{}}`, `{"k:":{}}`,
		`{"v:true":{},"v:\"a\":{}}`, `{"v:truex":{}}`, `{"k:{\"a\":1}x":{}}`,
	} {
		if set, ok := parsePathSet(nil, text); ok {
			t.Errorf("%s was read as %s", text, set.appendJSON(nil))
		}
	}
}

// FuzzParsePathSet checks that a parsed text gives the set that fieldpath reads and writes.
func FuzzParsePathSet(f *testing.F) {
	f.Add(`{"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{}}}}}`)
	f.Add(`{"f:metadata":{"f:finalizers":{".":{},"v:\"a\"":{}}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		set, ok := parsePathSet(nil, text)
		if !ok {
			return
		}
		if again := set.appendJSON(nil); string(again) != text {
			t.Errorf("%s became %s", text, again)
		}
		var want fieldpath.Set
		if err := want.FromJSON(bytes.NewReader([]byte(text))); err != nil {
			t.Fatalf("%s: upstream: %v", text, err)
		}
		again, err := want.ToJSON()
		if err != nil || string(again) != text {
			t.Errorf("%s is to upstream %s, %v", text, again, err)
		}
	})
}
