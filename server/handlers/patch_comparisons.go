package handlers

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// comparisons counts the comparisons of upstream's strategic merge: for each element of a merged list it searches the list from the beginning, and
// it sorts the list by positions that it finds in the same way. Here positions are looked up, so that counting takes far less time than merging.
//
// The count is upstream's, plus a little for each element; it is higher when the patch has a key twice in one list. Hence no patch of a real client
// is rejected that upstream merges with fewer than mostComparisons. Where upstream stops with an error (elements of different types, unknown
// fields), counting stops, too, and upstream reports the error.
type comparisons struct {
	n    int64
	most int64 // counting stops beyond it
}

// reading is the number of comparisons that take as long as counting one element. It is added for each element, so that lists that are cheap for
// upstream cannot make the count itself slow.
const reading = 16

func (c *comparisons) tooMany() bool { return c.n > c.most }

// objects counts the comparisons to merge a patch into an object.
func (c *comparisons) objects(original, patch map[string]any, schema strategicpatch.LookupPatchMeta) {
	if _, directive := patch["$patch"]; directive {
		return // it replaces or deletes the object
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

// field counts the comparisons to merge a value into a field. Lists of deletions are merged whatever the field's strategy is.
func (c *comparisons) field(original map[string]any, name string, value any, schema strategicpatch.LookupPatchMeta, deletes bool) {
	switch value := value.(type) {
	case map[string]any:
		old, ok := original[name].(map[string]any)
		if !ok {
			return // upstream takes the value unchanged
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

// ordered counts the comparisons to merge a list whose order is in the patch.
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

// kindOf tells whether the elements of two lists are objects. ok is false when there are none, their types differ, or one is null: upstream rejects
// these lists.
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
