package codec_test

import (
	"bytes"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/resources/builtin/builtintest"
	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/server/codec"
)

// formats returns all formats that a client can request.
func formats() []codec.Format {
	var out []codec.Format
	for _, media := range []string{codec.JSON, codec.YAML, codec.Protobuf, codec.CBOR} {
		out = append(out, codec.Format{Media: media}, codec.Format{Media: media, As: codec.AsPartial, AsVersion: "v1"})
	}
	for _, include := range []metav1.IncludeObjectPolicy{metav1.IncludeNone, metav1.IncludeMetadata, metav1.IncludeObject} {
		table := &metav1.TableOptions{IncludeObject: include}
		out = append(out, codec.Format{Media: codec.JSON, As: codec.AsTable, AsVersion: "v1", Table: table},
			codec.Format{Media: codec.YAML, As: codec.AsTable, AsVersion: "v1", Table: table},
			codec.Format{Media: codec.JSON, As: codec.AsTable, AsVersion: "v1", Table: table, Pretty: true})
	}
	return append(out, codec.Format{Media: codec.JSON, Pretty: true}, codec.Format{Media: codec.JSON, As: codec.AsPartial, AsVersion: "v1", Pretty: true})
}

// agree renders objects with and without fast paths, as an object, as a list, and as an event, and compares the results.
func agree(t testing.TB, s *resources.Served, f codec.Format, make func() []*resources.Object) {
	t.Helper()
	var fast, plain [][]byte
	for range 5 { // an age may change between the two
		fast, plain = render(t, s, f, true, make), render(t, s, f, false, make)
		if slices.EqualFunc(fast, plain, func(a, b []byte) bool { return alike(f, a, b) }) {
			return
		}
	}
	for i := range fast {
		if !alike(f, fast[i], plain[i]) {
			t.Fatalf("%s as %d in %s (-plain +fast):\n%s", s.GroupVersionKind, f.As, f.Media, cmp.Diff(string(plain[i]), string(fast[i])))
		}
	}
}

// alike compares two documents by their bytes, except for random orders: the entries of CBOR maps, and some YAML keys with digits, for which the
// library's order is cyclic (a < b < c < a).
func alike(f codec.Format, a, b []byte) bool {
	switch f.Media {
	case codec.CBOR:
		return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
	case codec.YAML:
		return slices.Equal(lines(a), lines(b))
	}
	return bytes.Equal(a, b)
}

// lines are the sorted lines of a document.
func lines(document []byte) []string { return slices.Sorted(strings.Lines(string(document))) }

func render(t testing.TB, s *resources.Served, f codec.Format, on bool, make func() []*resources.Object) [][]byte {
	t.Helper()
	defer fastpath.TurnAll(on)()
	var out [][]byte
	objects := make()
	object, err := codec.NewRenderer(s, f).Object(objects[0])
	if err != nil {
		t.Fatal(err)
	}
	list := f
	list.AsList = f.As == codec.AsPartial
	var whole bytes.Buffer
	l, err := codec.NewRenderer(s, list).List(objects, metav1.ListMeta{ResourceVersion: "7"})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Write(&whole); err != nil {
		t.Fatal(err)
	}
	out = append(out, object, whole.Bytes())
	if f.Media == codec.YAML || f.Pretty {
		return out // watches do not have the others
	}
	var frames bytes.Buffer
	events := codec.NewEvents(codec.NewRenderer(s, f), false)
	if err := events.Event(&frames, "MODIFIED", objects[0]); err != nil {
		t.Fatal(err)
	}
	if err := events.Bookmark(&frames, 9, true); err != nil {
		t.Fatal(err)
	}
	return append(out, frames.Bytes())
}

// stocked returns a function that makes new objects as from a store, so that one rendering finds nothing cached by another.
func stocked(t testing.TB, s *resources.Served, data ...[]byte) func() []*resources.Object {
	return func() (objects []*resources.Object) {
		for i, d := range data {
			o := resources.LoadObject(s.KeyOf("", ""), int64(i+1), bytes.Clone(d), nil, nil)
			hub, err := s.DecodeHub(o)
			if err != nil {
				t.Fatal(err)
			}
			m, err := meta.Accessor(hub)
			if err != nil {
				t.Fatal(err)
			}
			draft, err := s.NewDraft(t.Context(), hub)
			if err != nil {
				t.Fatal(err)
			}
			objects = append(objects, resources.NewObject(s.KeyOf(m.GetNamespace(), m.GetName()), draft, 123456789+int64(i)))
		}
		return objects
	}
}

// Objects of every type are rendered the same in every format and version, with and without fast paths.
func TestFastPathsAgree(t *testing.T) {
	eachSample(t, func(t *testing.T, s sample) {
		for _, f := range formats() {
			agree(t, s.served, f, stocked(t, s.served, s.object.Data, s.object.Data))
		}
	})
}

// FuzzFastPathsAgree does the same with random objects of all types.
func FuzzFastPathsAgree(f *testing.F) {
	r := resources.NewRegistry()
	r.SetGroups(builtin.Groups())
	types := builtintest.StoredTypes(f)
	all := formats()
	for i := range all {
		f.Add(int64(i), uint16(i), uint8(i))
	}
	f.Fuzz(func(t *testing.T, seed int64, kind uint16, format uint8) {
		s := types[int(kind)%len(types)]
		if random := rand.New(rand.NewSource(seed)); random.Intn(3) == 0 {
			s = otherVersion(r, s, random)
		}
		objects := stocked(t, s, builtintest.Random(t, s, seed), builtintest.Random(t, s, seed+1))
		agree(t, s, all[int(format)%len(all)], objects)
	})
}

// otherVersion is the type in one of its served versions.
func otherVersion(r *resources.Registry, s *resources.Served, random *rand.Rand) *resources.Served {
	var versions []*resources.Served
	for _, g := range r.Catalog().Groups() {
		for _, v := range g.Versions {
			for _, other := range v.Resources {
				if other.GroupResource == s.GroupResource {
					versions = append(versions, other)
				}
			}
		}
	}
	return versions[random.Intn(len(versions))]
}
