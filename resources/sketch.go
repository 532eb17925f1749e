package resources

import (
	"hash/maphash"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// A sketch is a Bloom filter of the pairs of a set: two bits for each. A list with a selector reads one word of most objects instead of
// a map, its keys and its values, none of which is near to another in memory.
//
// Invariant: the sketch of a set has all the bits of the sketch of each of its subsets. A sketch of zero says nothing, which is what an
// object has that was made without one, and all that an empty set has to say.
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

// sketch notes what MayMatch reads.
func (o *Object) sketch() {
	o.labelSketch, o.fieldSketch = sketchOf(o.Labels), sketchOf(o.Fields)
}

// Needs are pairs of labels and of fields that an object must have to be selected. The zero value needs none.
type Needs struct{ labels, fields sketch }

// NeedsOf are the needs of two selectors, either of which may be nil. The fields are those of Object.Fields.
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
			// A field that an object does not have is the same as an empty one, and the name and the namespace are not among Fields.
			if r.Operator == selection.NotEquals || r.Value == "" || r.Field == "metadata.name" || r.Field == "metadata.namespace" {
				continue
			}
			n.fields |= pairSketch(r.Field, r.Value)
		}
	}
	return n
}

// MayMatch is false only of an object that does not have the labels or the fields that are needed. Of others the selectors have to be asked.
func (o *Object) MayMatch(n Needs) bool {
	return (o.labelSketch&n.labels == n.labels || o.labelSketch == 0 && len(o.Labels) > 0) &&
		(o.fieldSketch&n.fields == n.fields || o.fieldSketch == 0 && len(o.Fields) > 0)
}
