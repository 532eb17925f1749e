package fieldmanager

import "slices"

// pathsOf returns the paths in a patch, which its manager then owns. ok is false where the patch has a part that is not
// covered.
func pathsOf(a *arena, p *schemaNode, v any) (set pathSet, ok bool) {
	w := pathWalker{builder: builder{arena: a}}
	w.value(p, v)
	return w.finish(0), !w.failed
}

type pathWalker struct {
	builder
	buf    []byte
	failed bool
}

// value pushes the paths below a value and reports whether the value is owned as a whole.
func (w *pathWalker) value(p *schemaNode, v any) (whole bool) {
	k := kindOf(v)
	if k == kindNull {
		// Null is a map where it could be one, else a scalar, else a list.
		switch {
		case p.isMap:
			return p.mapAtomic
		case p.scalar != "":
			return true
		}
		return p.listAtomic
	}
	switch v := v.(type) {
	case map[string]any:
		if p.mapAtomic {
			return true
		}
		w.entries(p, v)
		return false
	case []any:
		if p.listAtomic {
			return true
		}
		w.items(p, v)
		return false
	}
	return true
}

func (w *pathWalker) entries(p *schemaNode, m map[string]any) {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		child, declared := p.field(name)
		if child == nil || !plainName(name) {
			w.failed = true
			return
		}
		x := m[name]
		start := w.mark()
		whole := w.value(child, x)
		sub, isMap := x.(map[string]any)
		w.close(start, "f:"+name, whole || !declared || x == nil || isMap && len(sub) == 0)
	}
}

func (w *pathWalker) items(p *schemaNode, list []any) {
	own, ok := p.elements(&w.buf, list)
	if !ok {
		w.failed = true
		return
	}
	slices.SortFunc(own, func(a, b item) int { return compareElements(a.element, b.element) })
	for _, it := range own {
		start := w.mark()
		w.value(p.item, list[it.index])
		w.close(start, it.element, true)
	}
}

// elements returns the elements of the items of a list, in the order of the list. ok is false where an item has none or
// two have the same.
func (p *schemaNode) elements(buf *[]byte, list []any) ([]item, bool) {
	out := make([]item, 0, len(list))
	for i, x := range list {
		b, ok := p.appendElement((*buf)[:0], x)
		if !ok {
			return nil, false
		}
		*buf = b
		out = append(out, item{string(b), i})
	}
	if len(out) > 1 {
		seen := make(map[element]bool, len(out))
		for _, it := range out {
			if seen[it.element] {
				return nil, false
			}
			seen[it.element] = true
		}
	}
	return out, true
}
