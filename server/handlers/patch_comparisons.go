package handlers

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// comparisons counts those that upstream's strategic merge makes: it searches each element of a list that it merges from the beginning of
// the list, and sorts the list by places that it searches in the same way. Here places are looked up, so that to count takes far less
// than to merge.
//
// The count is upstream's, and a little for each element; it is higher when the patch has a key twice in one list. Hence nothing that
// clients make is refused when upstream merges it with fewer than mostComparisons. Where upstream stops (elements of different types,
// fields that there are not) no more is counted, and upstream words the refusal.
type comparisons struct {
	n    int64
	most int64 // beyond it nothing has to be counted
}

// reading is how many comparisons take as long as the count takes for an element, whatever upstream does with it: nobody makes the count
// itself long by lists that cost upstream little.
const reading = 16

func (c *comparisons) tooMany() bool { return c.n > c.most }

// objects counts what to merge a patch into an object takes.
func (c *comparisons) objects(original, patch map[string]any, schema strategicpatch.LookupPatchMeta) {
	if _, directive := patch["$patch"]; directive {
		return // it replaces the object, or deletes it
	}
	for key, value := range patch {
		if c.tooMany() {
			return
		}
		if name, ok := strings.CutPrefix(key, "$setElementOrder/"); ok {
			c.ordered(original, patch, name, schema)
		} else if name, ok := strings.CutPrefix(key, "$deleteFromPrimitiveList/"); ok {
			c.field(original, name, value, schema, true)
		} else if _, ok := patch["$setElementOrder/"+key]; !ok {
			c.field(original, key, value, schema, false)
		}
	}
}

// field counts what to merge a value into a field takes. Lists of what to delete are merged whatever the field's strategy is.
func (c *comparisons) field(original map[string]any, name string, value any, schema strategicpatch.LookupPatchMeta, deletes bool) {
	switch value := value.(type) {
	case map[string]any:
		old, ok := original[name].(map[string]any)
		if !ok {
			return // upstream takes the value as it is
		}
		if inner, m, err := schema.LookupPatchMetadataForStruct(name); err == nil && !slices.Contains(m.GetPatchStrategies(), "replace") {
			c.objects(old, value, inner)
		}
	case []any:
		old, ok := original[name].([]any)
		if !ok {
			return
		}
		if inner, m, err := schema.LookupPatchMetadataForSlice(name); err == nil && (deletes || slices.Contains(m.GetPatchStrategies(), "merge")) {
			c.lists(old, value, m.GetPatchMergeKey(), inner, deletes)
		}
	}
}

// ordered counts what to merge a list takes whose order the patch gives.
func (c *comparisons) ordered(original, patch map[string]any, name string, schema strategicpatch.LookupPatchMeta) {
	order, isList := patch["$setElementOrder/"+name].([]any)
	inner, m, err := schema.LookupPatchMetadataForSlice(name)
	if err != nil || !isList {
		return
	}
	old, exists := original[name].([]any)
	sent, isSent := patch[name].([]any)
	key := m.GetPatchMergeKey()
	objects, ok := c.kindOf(old, sent)
	if !ok || objects != (key != "") {
		return
	}
	var merged []any
	switch {
	case exists && !isSent:
		merged = keysOf(old, key)
	case exists && slices.Contains(m.GetPatchStrategies(), "merge"):
		merged = c.lists(old, sent, key, inner, false)
	default:
		merged = keysOf(sent, key)
	}
	c.arrange(merged, keysOf(order, key), keysOf(old, key), objects)
}

// kindOf tells whether the elements of two lists are objects. It is not ok when there are none, or not all are of one type, or one
// is null: upstream refuses that.
func (c *comparisons) kindOf(a, b []any) (objects, ok bool) {
	c.n += reading * int64(len(a)+len(b))
	var kind reflect.Type
	for _, list := range [][]any{a, b} {
		for _, element := range list {
			t := reflect.TypeOf(element)
			if kind == nil {
				kind = t
			}
			if t == nil || t != kind {
				return false, false
			}
		}
	}
	if kind == nil || kind.Kind() == reflect.Slice {
		return false, false
	}
	return kind.Kind() == reflect.Map, true
}
