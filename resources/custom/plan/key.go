package plan

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
)

// nodeKey is an encoding of a node: equal nodes have the same key, and no others do. Everything is written with its length or its count.
type nodeKey []byte

// key has the fields of a node and the addresses of its children.
func (n *Node) key() string {
	k := make(nodeKey, 0, 128+16*len(n.fields))
	k.flags(n.foreign, n.nullable, n.formatted, n.int32, n.noFloats, n.open, n.closed, n.preserve)
	k.flags(n.embedded, n.enum != nil, n.min != nil, n.max != nil, n.odd)
	k.number(int64(n.types), int64(n.list), n.text.length.min, n.text.length.max, n.size.min, n.size.max, n.properties.min, n.properties.max)
	k.value(n.enum)
	k.text(n.text.format)
	k.texts(n.keys)
	k.texts(n.required)
	k.texts(n.defaults)
	k.number(address(n.text.pattern))
	for _, limit := range []*bound{n.min, n.max} {
		if limit != nil {
			k.flags(limit.exclusive)
			k.number(limit.whole, int64(math.Float64bits(limit.float)))
		}
	}
	k.value(n.fallback)
	k.nodes(n.item, n.entry, n.not)
	k.number(int64(len(n.fields)))
	for _, name := range slices.Sorted(maps.Keys(n.fields)) {
		k.text(name)
		k.nodes(n.fields[name])
	}
	for _, of := range [][]*Node{n.allOf, n.anyOf, n.oneOf} {
		k.number(int64(len(of)))
		k.nodes(of...)
	}
	return string(k)
}

// flags writes up to eight flags.
func (k *nodeKey) flags(all ...bool) {
	var b byte
	for i, is := range all {
		if is {
			b |= 1 << i
		}
	}
	*k = append(*k, b)
}

func (k *nodeKey) number(all ...int64) {
	for _, n := range all {
		*k = binary.AppendVarint(*k, n)
	}
}

func (k *nodeKey) text(s string) {
	k.number(int64(len(s)))
	*k = append(*k, s...)
}

func (k *nodeKey) texts(all []string) {
	k.number(int64(len(all)))
	for _, s := range all {
		k.text(s)
	}
}

// nodes writes the addresses of nodes, which stay valid as long as these are alive.
func (k *nodeKey) nodes(all ...*Node) {
	for _, n := range all {
		k.number(address(n))
	}
}

// address is the address in a pointer.
func address(pointer any) int64 { return int64(reflect.ValueOf(pointer).Pointer()) }

// value writes a JSON value, with the types of numbers.
func (k *nodeKey) value(v any) {
	switch v := v.(type) {
	case nil:
		*k = append(*k, 'n')
	case bool:
		*k = append(*k, 'b')
		k.flags(v)
	case string:
		*k = append(*k, 's')
		k.text(v)
	case int64:
		*k = append(*k, 'i')
		k.number(v)
	case float64:
		*k = append(*k, 'f')
		k.number(int64(math.Float64bits(v)))
	case []any:
		*k = append(*k, 'l')
		k.number(int64(len(v)))
		for _, item := range v {
			k.value(item)
		}
	case map[string]any:
		*k = append(*k, 'm')
		k.number(int64(len(v)))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			k.text(name)
			k.value(v[name])
		}
	default:
		*k = append(*k, 'o')
		k.text(fmt.Sprintf("%T %#v", v, v))
	}
}
