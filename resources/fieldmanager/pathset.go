package fieldmanager

import (
	"slices"
	"sync"
)

// pathSet is a set of paths: a tree with the elements of each level in their order. It is immutable once made, and sets
// share parts. Each node is a member or has members below it.
type pathSet []pathNode

type pathNode struct {
	element element
	member  bool    // the path that ends here is in the set
	sub     pathSet // the longer paths through here
}

// find returns the node of an element and its position, or the position it would have.
func (s pathSet) find(e element) (int, bool) {
	lo, hi := 0, len(s)
	for lo < hi {
		mid := (lo + hi) / 2
		switch c := compareElements(s[mid].element, e); {
		case c == 0:
			return mid, true
		case c < 0:
			lo = mid + 1
		default:
			hi = mid
		}
	}
	return lo, false
}

// minus returns the paths of s that are not in d. It returns s itself where none is.
func (s pathSet) minus(d pathSet) pathSet {
	return s.subtract(d, func(n, not pathNode) pathNode {
		return pathNode{n.element, n.member && !not.member, n.sub.minus(not.sub)}
	})
}

// minusTrees returns the paths of s that have no prefix in d.
func (s pathSet) minusTrees(d pathSet) pathSet {
	return s.subtract(d, func(n, not pathNode) pathNode {
		if not.member {
			return pathNode{}
		}
		return pathNode{n.element, n.member, n.sub.minusTrees(not.sub)}
	})
}

// subtract replaces the nodes that both s and d have, and removes nodes that become empty.
func (s pathSet) subtract(d pathSet, replace func(n, not pathNode) pathNode) pathSet {
	if len(s) == 0 || len(d) == 0 {
		return s
	}
	var out pathSet // nil while nothing has changed
	j := 0
	for i, n := range s {
		c := 1
		for j < len(d) {
			if c = compareElements(d[j].element, n.element); c >= 0 {
				break
			}
			j++
		}
		if j < len(d) && c == 0 {
			left := replace(n, d[j])
			if left.member != n.member || !left.sub.same(n.sub) {
				if out == nil {
					out = append(make(pathSet, 0, len(s)), s[:i]...)
				}
				n = left
			}
			j++
		}
		if out != nil && (n.member || len(n.sub) > 0) {
			out = append(out, n)
		}
	}
	if out == nil {
		return s
	}
	return out
}

// same reports whether two sets are one slice, by which operations show that they changed nothing.
func (s pathSet) same(t pathSet) bool {
	return len(s) == len(t) && (len(s) == 0 || &s[0] == &t[0])
}

// plus returns the paths of s and of t.
func (s pathSet) plus(t pathSet) pathSet {
	switch {
	case len(t) == 0:
		return s
	case len(s) == 0:
		return t
	}
	out := make(pathSet, 0, len(s)+len(t))
	i, j := 0, 0
	for i < len(s) && j < len(t) {
		switch c := compareElements(s[i].element, t[j].element); {
		case c < 0:
			out = append(out, s[i])
			i++
		case c > 0:
			out = append(out, t[j])
			j++
		default:
			out = append(out, pathNode{s[i].element, s[i].member || t[j].member, s[i].sub.plus(t[j].sub)})
			i++
			j++
		}
	}
	return append(append(out, s[i:]...), t[j:]...)
}

// meets reports whether s and t have a path in common.
func (s pathSet) meets(t pathSet) bool {
	i, j := 0, 0
	for i < len(s) && j < len(t) {
		switch c := compareElements(s[i].element, t[j].element); {
		case c < 0:
			i++
		case c > 0:
			j++
		default:
			if s[i].member && t[j].member || s[i].sub.meets(t[j].sub) {
				return true
			}
			i++
			j++
		}
	}
	return false
}

// builder builds sets from the leaves up: the nodes of unfinished levels are on a stack.
type builder struct {
	arena *arena
	stack []pathNode
}

// mark returns the start of the level that begins now.
func (b *builder) mark() int { return len(b.stack) }

// leaf adds a path to the level that is open.
func (b *builder) leaf(e element) { b.stack = append(b.stack, pathNode{element: e, member: true}) }

// close ends the level begun at start: its nodes, which are in order, become the children of the element.
func (b *builder) close(start int, e element, member bool) {
	sub := b.finish(start)
	if member || sub != nil {
		b.stack = append(b.stack, pathNode{e, member, sub})
	}
}

// finish ends the level begun at start and returns it.
func (b *builder) finish(start int) pathSet {
	if len(b.stack) == start {
		return nil
	}
	level := b.arena.level(len(b.stack) - start)
	copy(level, b.stack[start:])
	b.stack = b.stack[:start]
	return level
}

// arena is the memory of the sets of one write. They do not outlive it: only text remains of a write.
type arena struct {
	chunks [][]pathNode
	chunk  int // the chunk in use
	used   int // the used part of it
}

// chunkNodes is enough for all but the largest objects.
const chunkNodes = 512

var arenas = sync.Pool{New: func() any { return new(arena) }}

// level returns room for n nodes. A nil arena allocates it on the heap.
func (a *arena) level(n int) pathSet {
	if a == nil || n > chunkNodes {
		return make(pathSet, n)
	}
	if a.chunk < len(a.chunks) && a.used+n > chunkNodes {
		a.chunk++
		a.used = 0
	}
	if a.chunk == len(a.chunks) {
		a.chunks = append(a.chunks, make([]pathNode, chunkNodes))
	}
	a.used += n
	return a.chunks[a.chunk][a.used-n : a.used : a.used]
}

// release gives the memory to the next write.
func (a *arena) release() {
	for i := 0; i < a.chunk; i++ {
		clear(a.chunks[i])
	}
	if a.chunk < len(a.chunks) {
		clear(a.chunks[a.chunk][:a.used])
	}
	const keep = 4
	if len(a.chunks) > keep {
		a.chunks = slices.Clone(a.chunks[:keep])
	}
	a.chunk, a.used = 0, 0
	arenas.Put(a)
}
