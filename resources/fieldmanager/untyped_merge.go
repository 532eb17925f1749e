package fieldmanager

import (
	"maps"
	"slices"
)

// merge merges a patch into an object, as Server-Side Apply does before it removes anything: the fields in the patch
// take its values, everything else stays. It returns the merged object, which shares unchanged parts with the old one,
// the paths whose values changed, and whether nothing changed (a change of the order of a list counts). reason is not
// empty where the merge does not cover the objects.
func merge(a *arena, p *schemaNode, object, patch map[string]any) (merged any, changed pathSet, same bool, reason string) {
	m := merger{changed: builder{arena: a}}
	out, same, _ := m.values(p, object, patch)
	if m.reason != "" {
		return nil, nil, false, m.reason
	}
	return out, m.changed.finish(0), same, ""
}

type merger struct {
	changed builder
	reason  string
	buf     []byte
}

// values merges two values. whole: the path to them is itself changed.
func (m *merger) values(p *schemaNode, l, r any) (out any, same, whole bool) {
	lk, rk := kindOf(l), kindOf(r)
	switch {
	case rk == kindMissing:
		return l, true, false
	case lk == kindMissing:
		m.added(p, r)
		return r, false, true
	case lk == kindNull && rk == kindNull:
		return l, true, false
	case lk == kindNull || rk == kindNull:
		return m.nulls(p, l, r, max(lk, rk))
	case lk != rk:
		m.reason = "schema"
		return l, true, false
	case lk == kindMap && !p.mapAtomic:
		out, same = m.maps(p, l.(map[string]any), r.(map[string]any))
		return out, same, false
	case lk == kindList && !p.listAtomic:
		out, same = m.lists(p, l.([]any), r.([]any))
		return out, same, false
	}
	if equalUntyped(l, r) {
		return l, true, false
	}
	return r, false, true
}

// nulls merges a null with a value of kind k.
func (m *merger) nulls(p *schemaNode, l, r any, k kind) (out any, same, whole bool) {
	if p.several() {
		m.reason = "schema"
		return l, true, false
	}
	granular := k == kindMap && !p.mapAtomic || k == kindList && !p.listAtomic
	switch {
	case !granular:
		return r, false, true
	case r == nil && !emptyContainer(l):
		return l, true, false // null owns no part of it
	case l == nil && !emptyContainer(r):
		m.added(p, r)
		return r, false, false
	}
	return r, false, true
}

func emptyContainer(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return true
}

// added pushes the paths below a value that is new.
func (m *merger) added(p *schemaNode, v any) {
	switch v := v.(type) {
	case map[string]any:
		if p.mapAtomic {
			return
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			child, _ := p.field(name)
			m.child("f:"+name, child, missing, v[name])
		}
	case []any:
		if p.listAtomic {
			return
		}
		items, ok := p.elements(&m.buf, v)
		if !ok {
			m.reason = "list key"
			return
		}
		sortItems(items)
		for _, it := range items {
			m.child(it.element, p.item, missing, v[it.index])
		}
	}
}

func sortItems(items []item) {
	slices.SortFunc(items, func(a, b item) int { return compareElements(a.element, b.element) })
}

func (m *merger) child(e element, p *schemaNode, l, r any) (out any, same bool) {
	if p == nil || !plainElement(e) {
		m.reason = "schema"
		return l, true
	}
	start := m.changed.mark()
	out, same, whole := m.values(p, l, r)
	m.changed.close(start, e, whole)
	return out, same
}

// plainElement reports whether an element from a field's name needs no escape; other elements never do.
func plainElement(e element) bool { return e[0] != 'f' || plainName(e[2:]) }

func (m *merger) maps(p *schemaNode, l, r map[string]any) (out map[string]any, same bool) {
	out, same = l, true
	for _, name := range slices.Sorted(maps.Keys(r)) {
		old, there := l[name]
		if !there {
			old = missing
		}
		child, _ := p.field(name)
		v, unchanged := m.child("f:"+name, child, old, r[name])
		if unchanged {
			continue
		}
		if same {
			same = false
			out = make(map[string]any, len(l)+1)
			maps.Copy(out, l)
		}
		out[name] = v
	}
	return out, same
}

func (m *merger) lists(p *schemaNode, l, r []any) (out []any, same bool) {
	left, ok := p.elements(&m.buf, l)
	if !ok {
		m.reason = "duplicate items"
		return l, true
	}
	right, ok := p.elements(&m.buf, r)
	if !ok {
		m.reason = "duplicate items"
		return l, true
	}
	inLeft := positions(left)
	merged := make([]any, len(r))
	same = true
	sorted := slices.Clone(right)
	sortItems(sorted)
	for _, it := range sorted {
		old := missing
		if i, ok := inLeft[it.element]; ok {
			old = l[i]
		}
		v, unchanged := m.child(it.element, p.item, old, r[it.index])
		merged[it.index] = v
		same = same && unchanged
	}
	out, kept := interleave(left, right, l, merged)
	if same && kept {
		return l, true
	}
	return out, false
}

func positions(items []item) map[element]int {
	out := make(map[element]int, len(items))
	for _, it := range items {
		out[it.element] = it.index
	}
	return out
}

// interleave orders the items of a merged list: items of both lists have the order of the right list, and items of only
// one list stay near their neighbours, the left list's first. kept: the result has the order of the left list.
func interleave(left, right []item, l, merged []any) (out []any, kept bool) {
	inLeft, inRight := positions(left), positions(right)
	var shared []int // positions in right of the items in both
	for j, it := range right {
		if _, ok := inLeft[it.element]; ok {
			shared = append(shared, j)
		}
	}
	out = make([]any, 0, len(l)+len(merged)-len(shared))
	done := make([]bool, len(right))
	kept = len(shared) == len(right)
	last := -1 // the greatest left position in out
	i, j := 0, 0
	take := func() { // the next item of right
		at, ok := inLeft[right[j].element]
		kept = kept && ok && at > last
		last = max(last, at)
		out = append(out, merged[j])
		done[j] = true
		j++
	}
	for i < len(left) || j < len(right) {
		if i < len(left) {
			at, both := inRight[left[i].element]
			switch {
			case !both:
				kept = kept && i > last
				last = max(last, i)
				out = append(out, l[i])
				i++
				continue
			case j < len(right) && at == j:
				take()
				shared = shared[min(1, len(shared)):]
				i++
				continue
			case j < len(right) && len(shared) > 0 && shared[0] != at:
				i++ // comes at its place in right
				continue
			case done[at]:
				i++
			}
		}
		if j < len(right) {
			if len(shared) > 0 && shared[0] == j {
				shared = shared[1:]
			}
			take()
		}
	}
	return out, kept && len(out) == len(l)
}
