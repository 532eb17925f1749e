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

// distinct tells whether the items of a list are surely those of a list of its type: none of them is there twice.
func (n *Node) distinct(list []any) bool {
	switch n.list {
	case setList:
		return distinctScalars(list)
	case mapList:
		return n.distinctKeys(list)
	}
	return true
}

// few is how many items are compared with each other. More are found by a map.
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

// absent is the value of a key that an item does not have.
type absent struct{}

// distinctKeys tells whether all items are objects of which no two have the same keys.
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

// keyable values are the same when Go says so. Upstream compares several keys as JSON, where 1 is 1.0, and texts that are not UTF-8
// become the same.
func keyable(v any) bool {
	switch v := v.(type) {
	case bool, int64:
		return true
	case string:
		return utf8.ValidString(v)
	}
	return false
}
