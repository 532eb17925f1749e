package typedjson

import (
	"reflect"
	"slices"
	"strings"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// usualKeys is the number of keys of a map that are sorted without an allocation.
const usualKeys = 16

// sortedKeys returns the keys of m in order, in room if that is large enough.
func sortedKeys[K ~string, V any](m map[K]V, room []K) []K {
	for key := range m {
		room = append(room, key)
	}
	slices.Sort(room)
	return room
}

// AppendMap is Append of a map of strings.
func AppendMap(dst []byte, m map[string]string) (out []byte, ok bool) {
	if !fastpath.JSONEncode.On() {
		return dst, false
	}
	return appendStringMap(nil, dst, unsafe.Pointer(&m)), true
}

// appendStringMap writes labels, annotations and the like.
func appendStringMap(_ *encoder, dst []byte, p unsafe.Pointer) []byte {
	m := *(*map[string]string)(p)
	if m == nil {
		return append(dst, "null"...)
	}
	var room [usualKeys]string
	dst = append(dst, '{')
	for i, key := range sortedKeys(m, room[:0]) {
		dst = appendKey(dst, i, key)
		dst = appendString(dst, m[key])
	}
	return append(dst, '}')
}

func appendResourceList(e *encoder, dst []byte, p unsafe.Pointer) []byte {
	m := *(*map[corev1.ResourceName]resource.Quantity)(p)
	if m == nil {
		return append(dst, "null"...)
	}
	var room [usualKeys]corev1.ResourceName
	dst = append(dst, '{')
	for i, key := range sortedKeys(m, room[:0]) {
		dst = appendKey(dst, i, string(key))
		e.quantity = m[key]
		dst = appendQuantity(e, dst, unsafe.Pointer(&e.quantity))
	}
	return append(dst, '}')
}

// appendMap writes any other map with string keys, by reflection. Values of maps have no address, so they are copied
// first.
func (e *encoder) appendMap(dst []byte, p unsafe.Pointer, t reflect.Type, w writer) []byte {
	m := reflect.NewAt(t, p).Elem()
	if m.IsNil() {
		return append(dst, "null"...)
	}
	type entry struct {
		key   string
		value reflect.Value
	}
	values := reflect.MakeSlice(reflect.SliceOf(t.Elem()), m.Len(), m.Len())
	entries := make([]entry, m.Len())
	for i, iter := 0, m.MapRange(); iter.Next(); i++ {
		value := values.Index(i)
		value.SetIterValue(iter)
		entries[i] = entry{iter.Key().String(), value.Addr()}
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.key, b.key) })
	dst = append(dst, '{')
	for i, entry := range entries {
		dst = appendKey(dst, i, entry.key)
		dst = w(e, dst, entry.value.UnsafePointer())
	}
	return append(dst, '}')
}

// appendKey writes the i-th key of a map.
func appendKey(dst []byte, i int, key string) []byte {
	if i > 0 {
		dst = append(dst, ',')
	}
	dst = appendString(dst, key)
	return append(dst, ':')
}
