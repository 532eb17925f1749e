package handlers

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/rowlock/rowlock/resources/gotype"
)

// mostStrategicText bounds the size of an object and its patch for a merge as text. Larger ones may be too costly for upstream's merge
// (affordableLists), and must be rejected whether or not the fast path is on.
const mostStrategicText = 64 << 10

// strategicFast applies a strategic merge patch that is free of errors and has no directives but the order of lists, as kubelets and controllers
// send it. ok is false for any other, which is then left to upstream.
func (p *patcher) strategicFast(old []byte) (obj runtime.Object, ok bool) {
	if len(old)+len(p.body) > mostStrategicText {
		return nil, false
	}
	versioned, err := p.q.served.Scheme.New(p.q.kind)
	if err != nil || !utf8.Valid(p.body) || !isJSONObject(p.body) {
		return nil, false
	}
	schema, err := strategicpatch.NewPatchMetaFromStruct(versioned)
	if err != nil || !plainTypes.Of(schema.T, isPlainType) {
		return nil, false
	}
	patched, ok := mergeStrategicText(old, p.body, schema)
	if !ok {
		return nil, false
	}
	return p.q.decodeJSON(patched, p.validation, true)
}

// plainTypes caches for each Go type whether its text can be merged.
var plainTypes gotype.Memo[bool]

// scalarTypes have an UnmarshalJSON method, which reads one string, number or set of fields, and encode what they have decoded. Other types with
// such a method keep the client's text, which upstream's merge encodes again.
var scalarTypes = map[reflect.Type]bool{
	reflect.TypeFor[metav1.Time](): true, reflect.TypeFor[metav1.MicroTime](): true, reflect.TypeFor[metav1.Duration](): true,
	reflect.TypeFor[metav1.FieldsV1](): true, reflect.TypeFor[resource.Quantity](): true, reflect.TypeFor[intstr.IntOrString](): true,
}

// isPlainType tells whether no part of a type has its own UnmarshalJSON, scalarTypes excepted.
func isPlainType(t reflect.Type) bool {
	unmarshaler := reflect.TypeFor[interface{ UnmarshalJSON([]byte) error }]()
	seen := map[reflect.Type]bool{}
	var plain func(reflect.Type) bool
	plain = func(t reflect.Type) bool {
		if seen[t] || scalarTypes[t] {
			return true
		}
		seen[t] = true
		if reflect.PointerTo(t).Implements(unmarshaler) {
			return false
		}
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			return plain(t.Elem())
		case reflect.Interface:
			return false
		case reflect.Struct:
			for f := range gotype.Fields(t) {
				if !plain(f.Type) {
					return false
				}
			}
		}
		return true
	}
	return plain(t)
}

// mergeStrategicText merges a strategic merge patch into the text of an object, by the tags of its Go type. Whatever the patch does not touch is
// copied unchanged: upstream decodes both into maps, and these into the object, which takes half of the time of the request. Both are valid JSON
// objects in UTF-8. ok is false when the patch has other directives than $setElementOrder, or anything else that upstream may reject or treat
// specially.
func mergeStrategicText(doc, patch []byte, schema strategicpatch.LookupPatchMeta) (merged []byte, ok bool) {
	m := &strategicText{}
	m.out.Grow(len(doc) + len(patch))
	ok = m.object(parsed(doc), parsed(patch), schema)
	return m.out.Bytes(), ok
}

// strategicText is a merge in progress. Each of its methods writes a value, and returns false when the patch is not supported.
type strategicText struct{ out bytes.Buffer }

// strategicChange is a patch's value, and order, for a member of an object.
type strategicChange struct {
	key          string // as written, with quotes
	value, order gjson.Result
}

// deletes tells whether the patch removes the member.
func (c *strategicChange) deletes() bool { return c.value.Exists() && c.value.Type == gjson.Null }

const (
	directivePrefix = "$"
	orderPrefix     = "$setElementOrder/"
)

// strategicChanges returns the members of a patch by name. ok is false for an unsupported directive, a duplicate and a name with escapes.
func strategicChanges(patch gjson.Result) (changes map[string]*strategicChange, ok bool) {
	changes, ok = map[string]*strategicChange{}, true
	patch.ForEach(func(key, value gjson.Result) bool {
		name, orders := strings.CutPrefix(key.Str, orderPrefix)
		if ok = isPlainKey(key) && (orders || !strings.HasPrefix(name, directivePrefix)); !ok {
			return false
		}
		c := changes[name]
		if c == nil {
			c = &strategicChange{}
			changes[name] = c
		}
		if orders {
			ok = !c.order.Exists() && value.IsArray()
			c.order = value
		} else {
			ok = !c.value.Exists()
			c.key, c.value = key.Raw, value
		}
		return ok
	})
	return changes, ok
}

func isPlainKey(key gjson.Result) bool { return len(key.Raw) == len(key.Str)+2 }

// object writes doc with patch merged into it.
func (m *strategicText) object(doc, patch gjson.Result, schema strategicpatch.LookupPatchMeta) bool {
	changes, ok := strategicChanges(patch)
	if !ok {
		return false
	}
	open := byte('{')
	member := func(key string) {
		m.out.WriteByte(open)
		open = ','
		m.out.WriteString(key)
		m.out.WriteByte(':')
	}
	doc.ForEach(func(key, value gjson.Result) bool {
		c := changes[key.Str]
		delete(changes, key.Str)
		switch {
		case c == nil:
			member(key.Raw)
			m.out.WriteString(value.Raw)
		case c.deletes():
			ok = !c.order.Exists()
		default:
			member(key.Raw)
			ok = m.value(key.Str, value, c, schema)
		}
		return ok
	})
	if !ok {
		return false
	}
	patch.ForEach(func(key, _ gjson.Result) bool {
		c := changes[strings.TrimPrefix(key.Str, orderPrefix)]
		switch {
		case c == nil || c.deletes() && !c.order.Exists(): // done, or nothing to delete
		case c.order.Exists():
			ok = false // the order of a list that does not exist
		default:
			member(c.key)
			ok = m.whole(c.value)
		}
		return ok
	})
	if open == '{' {
		m.out.WriteByte('{')
	}
	m.out.WriteByte('}')
	return ok
}

// value writes the merged value of a member.
func (m *strategicText) value(name string, old gjson.Result, c *strategicChange, schema strategicpatch.LookupPatchMeta) bool {
	switch {
	case old.IsArray() && (c.value.IsArray() || !c.value.Exists()):
		inner, meta, err := schema.LookupPatchMetadataForSlice(name)
		if err != nil {
			return false
		}
		strategy, ok := mergesBy(meta)
		if ok && strategy == "merge" {
			return m.list(old, c, meta.GetPatchMergeKey(), inner)
		}
		return ok && !c.order.Exists() && m.whole(c.value)
	case c.order.Exists():
		return false
	case old.IsObject() && c.value.IsObject():
		inner, meta, err := schema.LookupPatchMetadataForStruct(name)
		if err != nil {
			return false
		}
		strategy, ok := mergesBy(meta)
		return ok && strategy != "replace" && m.object(old, c.value, inner)
	}
	return m.whole(c.value)
}

// mergesBy is the merge strategy of a field; empty if it has none. retainKeys is ignored, because a directive triggers it. ok is false for several
// strategies.
func mergesBy(meta strategicpatch.PatchMeta) (strategy string, ok bool) {
	strategies := slices.DeleteFunc(slices.Clone(meta.GetPatchStrategies()), func(s string) bool { return s == "retainKeys" })
	switch len(strategies) {
	case 0:
		return "", true
	case 1:
		return strategies[0], true
	}
	return "", false
}

// whole writes a value of the patch unchanged.
func (m *strategicText) whole(v gjson.Result) bool {
	m.out.WriteString(v.Raw)
	return isWhole(v)
}

// isWhole tells whether a value of a patch can be copied unchanged: it has no null, which upstream removes in some places, no directive, and no
// duplicate name.
func isWhole(v gjson.Result) (whole bool) {
	if v.Type == gjson.Null {
		return false
	}
	whole = true
	switch {
	case v.IsObject():
		names := map[string]bool{}
		v.ForEach(func(key, value gjson.Result) bool {
			whole = isPlainKey(key) && !strings.HasPrefix(key.Str, directivePrefix) && !names[key.Str] && isWhole(value)
			names[key.Str] = true
			return whole
		})
	case v.IsArray():
		v.ForEach(func(_, value gjson.Result) bool {
			whole = isWhole(value)
			return whole
		})
	}
	return whole
}
