package fieldmanager

import (
	"reflect"
	"slices"
	"sync"
)

// diff walks two objects of a node and returns the paths of the second that are not in the first or have another value
// there, and the paths of the first that are not in the second. reason is not empty where the walk does not cover the
// objects.
func diff(a *arena, p *typedNode, old, new reflect.Value) (changed, removed pathSet, reason string) {
	d := differPool.Get().(*differ)
	defer d.release()
	d.changed.arena, d.removed.arena = a, a
	d.values(p, old, new)
	if d.reason != "" {
		return nil, nil, d.reason
	}
	return d.changed.finish(0), d.removed.finish(0), ""
}

// differPool keeps the stacks of finished walks.
var differPool = sync.Pool{New: func() any { return new(differ) }}

func (d *differ) release() {
	for _, b := range []*builder{&d.changed, &d.removed} {
		clear(b.stack[:cap(b.stack)]) // the stacks would keep strings of the objects in memory
		*b = builder{stack: b.stack[:0]}
	}
	clear(d.items[:cap(d.items)])
	clear(d.names[:cap(d.names)])
	d.items, d.names, d.reason = d.items[:0], d.names[:0], ""
	differPool.Put(d)
}

// differ is one walk. Values that are absent are the zero reflect.Value, which is not the same as null.
type differ struct {
	changed, removed builder
	reason           string
	items            []item
	names            []string
	buf              []byte
}

// item is an item of a list under its element.
type item struct {
	element element
	index   int
}

type presence uint8

const (
	absent presence = iota
	null
	there
)

// open follows pointers.
func open(v reflect.Value) (reflect.Value, presence) {
	if !v.IsValid() {
		return v, absent
	}
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return v, null
		}
		v = v.Elem()
	}
	return v, there
}

// openContainer is open for maps and lists, where nil is null.
func openContainer(v reflect.Value) (reflect.Value, presence) {
	v, p := open(v)
	if p == there && v.IsNil() {
		p = null
	}
	return v, p
}

func (d *differ) fail(reason string) (bool, bool) {
	if d.reason == "" {
		d.reason = reason
	}
	return false, false
}

// child walks two values, one of which may be absent, and adds the paths that it finds below an element.
func (d *differ) child(e element, p *typedNode, l, r reflect.Value) {
	c, m := d.changed.mark(), d.removed.mark()
	added, gone := d.values(p, l, r)
	d.changed.close(c, e, added)
	d.removed.close(m, e, gone)
}

// values walks two values and reports whether the path to them is itself changed or removed.
func (d *differ) values(p *typedNode, l, r reflect.Value) (changed, removed bool) {
	switch p.shape {
	case leaf:
		return d.leaves(p, l, r)
	case structure:
		return d.structs(p, l, r)
	case mapping:
		return d.maps(p, l, r)
	case keyed, scalarSet:
		return d.lists(p, l, r)
	}
	return d.fail("schema")
}

func (d *differ) leaves(p *typedNode, l, r reflect.Value) (changed, removed bool) {
	lv, lp := open(l)
	rv, rp := open(r)
	if p.strict {
		d.check(p, lv)
		d.check(p, rv)
	}
	if lp == there && rp == there {
		return !p.equal(lv, rv), false
	}
	return ends(lp, rp)
}

// ends is the result for a path whose values have nothing below that is compared separately.
func ends(l, r presence) (changed, removed bool) {
	switch {
	case l == absent:
		return true, false
	case r == absent:
		return false, true
	}
	return l != r, false
}

func (d *differ) structs(p *typedNode, l, r reflect.Value) (changed, removed bool) {
	lv, lp := open(l)
	rv, rp := open(r)
	empty := true
	for i := range p.fields {
		f := &p.fields[i]
		var x, y reflect.Value
		if lp == there {
			if x = f.of(lv); f.omit != nil && f.omit(x) {
				x = reflect.Value{}
			}
		}
		if rp == there {
			if y = f.of(rv); f.omit != nil && f.omit(y) {
				y = reflect.Value{}
			}
		}
		if x.IsValid() || y.IsValid() {
			empty = false
			d.child(f.element, f.node, x, y)
		}
	}
	if empty {
		return ends(lp, rp)
	}
	return lp == absent, rp == absent
}

func (d *differ) maps(p *typedNode, l, r reflect.Value) (changed, removed bool) {
	lv, lp := openContainer(l)
	rv, rp := openContainer(r)
	start := len(d.names)
	defer func() { d.names = d.names[:start] }()
	d.addNames(lv, lp)
	d.addNames(rv, rp)
	if len(d.names) == start {
		return ends(lp, rp)
	}
	names := d.names[start:]
	slices.Sort(names)
	names = slices.Compact(names)
	if p.strings {
		d.stringMaps(names, lv, lp, rv, rp)
		return lp == absent, rp == absent
	}
	at := func(v reflect.Value, p presence, name reflect.Value) reflect.Value {
		if p != there {
			return reflect.Value{}
		}
		return v.MapIndex(name)
	}
	key := reflect.New(mapType(lv, rv).Key()).Elem()
	for _, name := range names {
		if !plainName(name) {
			return d.fail("escaped name")
		}
		key.SetString(name)
		d.child("f:"+name, p.elem, at(lv, lp, key), at(rv, rp, key))
	}
	return lp == absent, rp == absent
}

// stringMaps is maps for labels and the like, without the cost of reflection.
func (d *differ) stringMaps(names []string, lv reflect.Value, lp presence, rv reflect.Value, rp presence) {
	var l, r map[string]string
	if lp == there {
		l = lv.Interface().(map[string]string)
	}
	if rp == there {
		r = rv.Interface().(map[string]string)
	}
	for _, name := range names {
		x, old := l[name]
		y, new := r[name]
		switch {
		case !plainName(name):
			d.fail("escaped name")
		case !new:
			d.removed.leaf("f:" + name)
		case !old || x != y:
			d.changed.leaf("f:" + name)
		}
	}
}

func mapType(l, r reflect.Value) reflect.Type {
	if l.IsValid() && l.Kind() == reflect.Map {
		return l.Type()
	}
	return r.Type()
}

func (d *differ) addNames(v reflect.Value, p presence) {
	if p != there {
		return
	}
	if m, ok := v.Interface().(map[string]string); ok {
		for name := range m {
			d.names = append(d.names, name)
		}
		return
	}
	key := reflect.New(v.Type().Key()).Elem()
	for it := v.MapRange(); it.Next(); {
		key.SetIterKey(it)
		d.names = append(d.names, key.String())
	}
}

func (d *differ) lists(p *typedNode, l, r reflect.Value) (changed, removed bool) {
	lv, lp := openContainer(l)
	rv, rp := openContainer(r)
	start := len(d.items)
	defer func() { d.items = d.items[:start] }()
	middle := d.addItems(p, lv, lp, start)
	end := d.addItems(p, rv, rp, start)
	if d.reason != "" {
		return false, false
	}
	if end == start {
		return ends(lp, rp)
	}
	ls, rs := start, middle // positions, as the walk below may move d.items
	for ls < middle || rs < end {
		c := 0
		switch {
		case ls == middle:
			c = 1
		case rs == end:
			c = -1
		default:
			c = compareElements(d.items[ls].element, d.items[rs].element)
		}
		var x, y reflect.Value
		var e element
		if c <= 0 {
			e, x = d.items[ls].element, lv.Index(d.items[ls].index)
			ls++
		}
		if c >= 0 {
			e, y = d.items[rs].element, rv.Index(d.items[rs].index)
			rs++
		}
		d.child(e, p.elem, x, y)
	}
	return lp == absent, rp == absent
}

// addItems puts the items of a list on the stack in the order of their elements, and returns its new height. hint is
// the start of the items of the other list, whose elements may be the same strings.
func (d *differ) addItems(p *typedNode, v reflect.Value, presence presence, hint int) int {
	start := len(d.items)
	if presence != there {
		return start
	}
	for i := range v.Len() {
		b, ok := p.appendElement(d.buf[:0], v.Index(i))
		if !ok {
			d.fail("list key")
			return start
		}
		d.buf = b
		if at := hint + i; at < start && d.items[at].element == string(b) {
			d.items = append(d.items, item{d.items[at].element, i})
		} else {
			d.items = append(d.items, item{string(b), i})
		}
	}
	own := d.items[start:]
	for i := 1; i < len(own); i++ {
		if compareElements(own[i-1].element, own[i].element) >= 0 {
			slices.SortFunc(own, func(a, b item) int { return compareElements(a.element, b.element) })
			break
		}
	}
	for i := 1; i < len(own); i++ {
		if own[i-1].element == own[i].element {
			d.fail("duplicate items")
		}
	}
	return len(d.items)
}

// check fails the walk where a keyed list below a leaf has an item without keys, which upstream refuses.
func (d *differ) check(p *typedNode, v reflect.Value) {
	v, present := open(v)
	if present != there || p.shape == unknown || marshals(v.Type()) {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range p.fields {
			f := &p.fields[i]
			if x := f.of(v); f.omit == nil || !f.omit(x) {
				d.check(f.node, x)
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			d.check(p.elem, it.Value())
		}
	case reflect.Slice:
		if p.elem == nil {
			return
		}
		for i := range v.Len() {
			if len(p.keys) > 0 {
				b, ok := p.appendElement(d.buf[:0], v.Index(i))
				if !ok {
					d.fail("list key")
				}
				d.buf = b
			}
			d.check(p.elem, v.Index(i))
		}
	}
}
