package fieldmanager

import "slices"

// diffUntyped is diff for untyped objects.
func diffUntyped(a *arena, p *schemaNode, old, new map[string]any) (changed, removed pathSet, reason string) {
	if !p.valid(old, false) || !p.valid(new, false) {
		return nil, nil, "schema"
	}
	d := untypedDiffer{changed: builder{arena: a}, removed: builder{arena: a}}
	d.values(p, old, new)
	if d.reason != "" {
		return nil, nil, d.reason
	}
	return d.changed.finish(0), d.removed.finish(0), ""
}

type untypedDiffer struct {
	changed, removed builder
	reason           string
	buf              []byte
}

func (d *untypedDiffer) fail(reason string) (bool, bool) {
	d.reason = reason
	return false, false
}

func (d *untypedDiffer) child(e element, p *schemaNode, l, r any) {
	if p == nil || !plainElement(e) {
		d.fail("escaped name")
		return
	}
	c, m := d.changed.mark(), d.removed.mark()
	added, gone := d.values(p, l, r)
	d.changed.close(c, e, added)
	d.removed.close(m, e, gone)
}

// values walks two values and reports whether the path to them is itself changed or removed.
func (d *untypedDiffer) values(p *schemaNode, l, r any) (changed, removed bool) {
	lk, rk := kindOf(l), kindOf(r)
	lp, rp := presenceOf(lk), presenceOf(rk)
	k := max(lk, rk)
	switch {
	case lp == there && rp == there && lk != rk, k > kindNull && min(lk, rk) == kindNull && p.several():
		return d.fail("schema")
	case k == kindMap && !p.mapAtomic:
		lm, _ := l.(map[string]any)
		rm, _ := r.(map[string]any)
		if len(lm)+len(rm) > 0 {
			d.maps(p, lm, rm)
			return lp == absent, rp == absent
		}
	case k == kindList && !p.listAtomic:
		ll, _ := l.([]any)
		rl, _ := r.([]any)
		if len(ll)+len(rl) > 0 {
			d.lists(p, ll, rl)
			return lp == absent, rp == absent
		}
	}
	if lp == there && rp == there {
		return !equalUntyped(l, r), false
	}
	return ends(lp, rp)
}

func presenceOf(k kind) presence {
	switch k {
	case kindMissing:
		return absent
	case kindNull:
		return null
	}
	return there
}

func (d *untypedDiffer) maps(p *schemaNode, l, r map[string]any) {
	names := make([]string, 0, len(l)+len(r))
	for name := range l {
		names = append(names, name)
	}
	for name := range r {
		if _, ok := l[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		x, ok := l[name]
		if !ok {
			x = missing
		}
		y, ok := r[name]
		if !ok {
			y = missing
		}
		child, _ := p.field(name)
		d.child("f:"+name, child, x, y)
	}
}

func (d *untypedDiffer) lists(p *schemaNode, l, r []any) {
	left, ok := p.elements(&d.buf, l)
	right, ok2 := p.elements(&d.buf, r)
	if !ok || !ok2 {
		d.fail("duplicate items")
		return
	}
	sortItems(left)
	sortItems(right)
	for len(left) > 0 || len(right) > 0 {
		c := 0
		switch {
		case len(left) == 0:
			c = 1
		case len(right) == 0:
			c = -1
		default:
			c = compareElements(left[0].element, right[0].element)
		}
		x, y := missing, missing
		var e element
		if c <= 0 {
			e, x, left = left[0].element, l[left[0].index], left[1:]
		}
		if c >= 0 {
			e, y, right = right[0].element, r[right[0].index], right[1:]
		}
		d.child(e, p.item, x, y)
	}
}
