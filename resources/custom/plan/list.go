package plan

import "unicode/utf8"

func (n *Node) checkList(list []any, update bool) verdict {
	if n.foreign || len(n.enum) > 0 {
		return unknown
	}
	if is := n.allows(anArray); is != valid {
		return is
	}
	if !n.size.hold(int64(len(list))) {
		return invalid
	}
	if n.item != nil {
		for _, v := range list {
			if is := n.item.check(v, update); is != valid {
				return is
			}
		}
	}
	if !n.distinct(list) {
		return unknown
	}
	return n.checkJunctors(list, update)
}

// distinct reports whether the items of a list are certainly distinct by the rules of its list type.
func (n *Node) distinct(list []any) bool {
	switch n.list {
	case setList:
		return distinctScalars(list)
	case mapList:
		return n.distinctKeys(list)
	}
	return true
}

// few is the greatest length of a list whose items are compared with each other. Longer lists use a map.
const few = 16

func distinctScalars(list []any) bool {
	if len(list) <= 1 {
		return true
	}
	for _, v := range list {
		switch v.(type) {
		case string, bool, int64:
		default:
			return false
		}
	}
	if len(list) <= few {
		for i, v := range list {
			for _, w := range list[:i] {
				if v == w {
					return false
				}
			}
		}
		return true
	}
	seen := make(map[any]struct{}, len(list))
	for _, v := range list {
		seen[v] = struct{}{}
	}
	return len(seen) == len(list)
}

// absent stands for a key field that an item does not have.
type absent struct{}

// distinctKeys reports whether all items are objects of which no two have the same keys.
func (n *Node) distinctKeys(list []any) bool {
	for _, v := range list {
		item, ok := v.(map[string]any)
		if !ok {
			return false
		}
		for _, key := range n.keys {
			if value, there := item[key]; there && len(list) > 1 && !keyable(value) {
				return false
			}
		}
	}
	switch {
	case len(list) <= 1:
		return true
	case len(list) <= few:
		for i := range list {
			for j := range i {
				if n.sameKeys(list[i].(map[string]any), list[j].(map[string]any)) {
					return false
				}
			}
		}
		return true
	case len(n.keys) > 1:
		return false
	}
	seen := make(map[any]struct{}, len(list))
	for _, v := range list {
		if key, there := v.(map[string]any)[n.keys[0]]; there {
			seen[key] = struct{}{}
		} else {
			seen[absent{}] = struct{}{}
		}
	}
	return len(seen) == len(list)
}

func (n *Node) sameKeys(a, b map[string]any) bool {
	for _, key := range n.keys {
		x, there := a[key]
		y, too := b[key]
		if there != too || x != y {
			return false
		}
	}
	return true
}

// keyable reports whether Go's == compares a key value as upstream does. Upstream compares several keys as JSON, where 1 is 1.0,
// and different texts that are not UTF-8 become equal.
func keyable(v any) bool {
	switch v := v.(type) {
	case bool, int64:
		return true
	case string:
		return utf8.ValidString(v)
	}
	return false
}
