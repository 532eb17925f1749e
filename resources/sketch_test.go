package resources

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// An object that the selectors match may match by its sketch, however it was made; and sketches exclude most of the others.
func TestSketchesAgreeWithSelectors(t *testing.T) {
	t.Cleanup(fastpath.Sketches.Turn(true))
	random := rand.New(rand.NewPCG(1, 2))
	some := func() map[string]string {
		set := map[string]string{}
		for range random.IntN(9) {
			set[fmt.Sprint("k", random.IntN(12))] = []string{"", "a", "b", "c"}[random.IntN(4)]
		}
		return set
	}
	same := func(set map[string]string) map[string]string { return set }
	var apart, known int
	for range 3000 {
		own, ownFields := some(), some()
		made := NewObject(Key{"pods", "n", "p"}, Draft{Data: []byte(`{"metadata":{"resourceVersion":"0"}}`), RevisionStart: 32, RevisionEnd: 33,
			Labels: own, Fields: ownFields}, 7)
		place := func(data []byte) []byte { return data }
		packed := made.Packed(place, same)
		objects := []*Object{made, made.At(9), made.Moved(place, same), packed, packed.Unpacked(), LoadObject(made.Key, 7, made.Data, own, ownFields),
			{Key: made.Key, Labels: own, Fields: ownFields}} // made without a sketch
		l, err := labels.Parse(selectorText(random, []string{"K=V", "K==V", "K!=V", "K in (V)", "K in (V,b)", "K notin (V)", "K", "!K"}))
		if err != nil {
			t.Fatal(err)
		}
		f, err := fields.ParseSelector(selectorText(random, []string{"K=V", "K==V", "K!=V"}))
		if err != nil {
			t.Fatal(err)
		}
		for _, needs := range []struct {
			Needs
			matches bool
		}{
			{NeedsOf(l, f), l.Matches(labels.Set(own)) && f.Matches(fields.Set(ownFields))},
			{NeedsOf(l, nil), l.Matches(labels.Set(own))},
			{NeedsOf(nil, f), f.Matches(fields.Set(ownFields))},
		} {
			for i, o := range objects {
				if needs.matches && !o.MayMatch(needs.Needs) {
					t.Fatalf("object %d with labels %v and fields %v: %q and %q match, the sketch says no", i, own, ownFields, l, f)
				}
			}
			if !needs.matches {
				apart++
				if !made.MayMatch(needs.Needs) {
					known++
				}
			}
		}
	}
	if known < apart/3 { // the others depend on !=, notin, or keys alone
		t.Errorf("of %d that do not match, sketches know %d", apart, known)
	}
}

// selectorText joins up to two of the terms, with a key for K and a value for V.
func selectorText(random *rand.Rand, terms []string) string {
	chosen := make([]string, random.IntN(3))
	for i := range chosen {
		names := strings.NewReplacer("K", fmt.Sprint("k", random.IntN(12)), "V", []string{"a", "b", "c"}[random.IntN(3)])
		chosen[i] = names.Replace(terms[random.IntN(len(terms))])
	}
	return strings.Join(chosen, ",")
}

// FuzzSketches: objects are selected alike with a sketch and without one, as where the path is off.
func FuzzSketches(f *testing.F) {
	for _, seed := range [][3]string{
		{"a=1,b=2", "a=1", "spec.x=y"}, {"a=1", "a in (1),b!=2", "spec.x!=y"}, {"", "a=,!b", "spec.x="}, {"a=", "a=,a", "metadata.name=p"},
		{"a=1,b=2,c=3", "a in (1,2),c=3", "a=1,b==2"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, own, labelSelector, fieldSelector string) {
		defer fastpath.Sketches.Turn(true)()
		set := map[string]string{}
		for _, pair := range strings.Split(own, ",") {
			if name, value, ok := strings.Cut(pair, "="); ok {
				set[name] = value
			}
		}
		l, err := labels.Parse(labelSelector)
		if err != nil {
			return
		}
		s, err := fields.ParseSelector(fieldSelector)
		if err != nil {
			return
		}
		o := NewObject(Key{"pods", "n", "p"}, Draft{Data: []byte(`{"metadata":{"resourceVersion":"0"}}`), RevisionStart: 32, RevisionEnd: 33, Labels: set, Fields: set}, 7)
		// The name and the namespace are not among the fields of a sketch, whatever the set has for them.
		known := s.RequiresExactMatch
		_, byName := known("metadata.name")
		_, byNamespace := known("metadata.namespace")
		if !byName && !byNamespace && l.Matches(labels.Set(set)) && s.Matches(fields.Set(set)) && !o.MayMatch(NeedsOf(l, s)) {
			t.Errorf("%v is selected by %q and %q, and its sketch says no", set, l, s)
		}
		if l.Matches(labels.Set(set)) && !o.MayMatch(NeedsOf(l, nil)) {
			t.Errorf("%v is selected by %q, and its sketch says no", set, l)
		}
		back := fastpath.Sketches.Turn(false)
		if NeedsOf(l, s) != (Needs{}) {
			t.Error("sketches are off, and are asked")
		}
		back()
	})
}
