package fieldmanager

import "slices"

// prune removes from a merged object the fields that its applier applied before and now leaves out, unless another manager
// owns them. last is the set of the previous Apply, owned the sets of all managers after this one. Three steps find the fields
// to remove; each removes paths from the merged object, as upstream does: a removed path takes everything below it along, so
// the steps do not commute. prune returns nil where the object has a part that is not covered.
func prune(a *arena, p *schemaNode, merged any, last, owned pathSet) any {
	all, ok := pathsOf(a, p, merged)
	if !ok {
		return nil
	}
	all = named(p, all)
	last, owned = named(p, last), named(p, owned)
	left := func(v any) (pathSet, bool) {
		s, ok := pathsOf(a, p, v)
		return named(p, s), ok
	}
	// The paths left without anything of the last set.
	without, ok := left(remove(p, merged, last))
	if !ok {
		return nil
	}
	// The same, with the paths that were removed along and have an owner.
	kept, ok := left(remove(p, merged, all.minus(without.plus(owned))))
	if !ok {
		return nil
	}
	// The same, with the paths that were removed along and never were this applier's.
	return remove(p, merged, all.minus(kept).common(last))
}

// named adds to a set the fields declared in the schema of which the set only has paths below: a manager that owns part of a
// struct owns its presence. Entries of maps and items of lists are not implied like that.
func named(p *schemaNode, s pathSet) pathSet {
	out := make(pathSet, len(s))
	for i, n := range s {
		child, declared := p.below(n.element)
		n.member = n.member || declared && len(n.sub) > 0
		n.sub = named(child, n.sub)
		out[i] = n
	}
	return out
}

// nothing is the node of a place outside the schema.
var nothing = &schemaNode{}

// below finds the node that an element leads to, and whether it is a declared field.
func (p *schemaNode) below(e element) (child *schemaNode, declared bool) {
	switch {
	case e[0] == 'f' && p.isMap:
		child, declared = p.field(e[2:])
	case e[0] == 'k' && p.isList:
		child = p.item
	}
	if child == nil {
		child = nothing
	}
	return child, declared
}

// common returns the paths that are in both sets.
func (s pathSet) common(t pathSet) pathSet {
	var out pathSet
	for i, j := 0, 0; i < len(s) && j < len(t); {
		switch c := compareElements(s[i].element, t[j].element); {
		case c < 0:
			i++
		case c > 0:
			j++
		default:
			n := pathNode{s[i].element, s[i].member && t[j].member, s[i].sub.common(t[j].sub)}
			if n.member || n.sub != nil {
				out = append(out, n)
			}
			i++
			j++
		}
	}
	return out
}

// remove returns a value without the paths of a set. It copies the parts that it changes. Containers that lose everything
// become null.
func remove(p *schemaNode, v any, s pathSet) any {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 || p.mapAtomic {
			return nil
		}
		return removeEntries(p, v, s)
	case []any:
		if len(v) == 0 || p.listAtomic {
			return nil
		}
		return removeItems(p, v, s)
	}
	return v
}

func removeEntries(p *schemaNode, m map[string]any, s pathSet) any {
	out := make(map[string]any, len(m))
	for name, x := range m {
		i, found := s.find("f:" + name)
		switch {
		case !found:
			out[name] = x
		case !s[i].member:
			child, _ := p.field(name)
			out[name] = remove(child, x, s[i].sub)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func removeItems(p *schemaNode, list []any, s pathSet) any {
	out := make([]any, 0, len(list))
	var buf []byte
	for _, x := range list {
		buf, _ = p.appendElement(buf[:0], x) // pathsOf has checked that it has one
		i, found := s.find(string(buf))
		switch {
		case !found:
			out = append(out, x)
		case !s[i].member:
			out = append(out, remove(p.item, x, s[i].sub))
		}
	}
	if len(out) == 0 {
		return nil
	}
	return slices.Clip(out)
}
