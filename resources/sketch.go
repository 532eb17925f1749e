package resources

import (
	"hash/maphash"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// A sketch is a Bloom filter of the pairs of a set: two bits for each. A list with a selector then reads one word for most objects instead
// of a map, its keys and its values, which lie apart in memory.
//
// Invariant: the sketch of a set has all the bits of the sketch of each of its subsets. A sketch of zero says nothing: an object made
// without a sketch has it, and so has an empty set.
type sketch uint64

var sketchSeed = maphash.MakeSeed()

func pairSketch(name, value string) sketch {
	sum := maphash.String(sketchSeed, name)*31 ^ maphash.String(sketchSeed, value)
	return 1<<(sum&63) | 1<<(sum>>6&63)
}

func sketchOf[S ~map[string]string](set S) (s sketch) {
	for name, value := range set {
		s |= pairSketch(name, value)
	}
	return s
}

// sketch sets the sketches that MayMatch reads.
func (o *Object) sketch() {
	o.labelSketch, o.fieldSketch = sketchOf(o.Labels), sketchOf(o.Fields)
}

// Needs are the pairs of labels and of fields that a selector requires. The zero value requires none.
type Needs struct{ labels, fields sketch }

// NeedsOf returns the needs of two selectors, either of which may be nil. The fields are those of Object.Fields.
func NeedsOf(l labels.Selector, f fields.Selector) (n Needs) {
	if !fastpath.Sketches.On() {
		return n
	}
	defer func() {
		if n == (Needs{}) && (l != nil && !l.Empty() || f != nil && !f.Empty()) {
			fastpath.Sketches.Fallback()
		}
	}()
	if l != nil {
		requirements, _ := l.Requirements()
		for _, r := range requirements {
			switch r.Operator() {
			case selection.Equals, selection.DoubleEquals, selection.In:
				if values := r.ValuesUnsorted(); len(values) == 1 {
					n.labels |= pairSketch(r.Key(), values[0])
				}
			}
		}
	}
	if f != nil {
		for _, r := range f.Requirements() {
			// A missing field equals an empty one, and the name and the namespace are not among Fields.
			if r.Operator == selection.NotEquals || r.Value == "" || r.Field == "metadata.name" || r.Field == "metadata.namespace" {
				continue
			}
			n.fields |= pairSketch(r.Field, r.Value)
		}
	}
	return n
}

// MayMatch is false only for an object that lacks needed labels or fields. For all others the selectors have to decide.
func (o *Object) MayMatch(n Needs) bool {
	return (o.labelSketch&n.labels == n.labels || o.labelSketch == 0 && len(o.Labels) > 0) &&
		(o.fieldSketch&n.fields == n.fields || o.fieldSketch == 0 && len(o.Fields) > 0)
}
