package sqlstore

import (
	"bytes"
	"cmp"
	"errors"
	"maps"

	"github.com/rowlock/rowlock/resources"
)

// DefragmentHeap moves the cached objects of each type together if a good part of them was written since the last time.
// Objects with a long life lie scattered among memory that requests have used and freed, and each keeps a span of the
// heap from being returned to the system: after many writes that is more memory than the objects take.
//
// The logs in memory hold objects where they are, and are scattered themselves. With forget they are dropped: a watch
// that is behind reads on from the database. Without forget, the objects in the logs stay where they are until the next
// time.
//
// Large objects of the types of Options.Packed are packed when they are moved. Only the trees have packed objects:
// reads, watches and commits return unpacked ones.
//
// At the end, connections free their cached pages of the database, too.
//
// moved is called after each step with the number of bytes that were moved; DefragmentHeap ends when it returns false.
// No other work waits for more than one step.
func (s *Store) DefragmentHeap(forget bool, moved func(bytes int) bool) {
	forgotten := false
	s.collections.Range(func(_, value any) bool {
		c := value.(*collection)
		for more := c.fragmented(forget); more; more = c.defragmenting() {
			if forget && !forgotten {
				s.forgetLogs()
				forgotten = true
			}
			s.pastCache.clear() // past states would keep the old copies
			if !moved(c.defragment()) {
				return false
			}
		}
		return true
	})
	if err := s.onCommitter(s.db.shrink); err != nil && !errors.Is(err, resources.ErrClosed) {
		s.logger.Warn("cannot give back the page cache", "error", err)
	}
}

func (s *Store) forgetLogs() {
	s.catchUps.clear()
	s.applying.Lock()
	defer s.applying.Unlock()
	s.budget.evictTo(s.position.revision)
}

const (
	// defragmentStep is how many objects are moved at a time, and defragmentBytes after how many bytes a step ends.
	defragmentStep  = 512
	defragmentBytes = 4 << 20
	// slabSize is how many bytes are allocated together. One object that stays keeps the rest of its slab. An object
	// larger than a slabAlone-th of it does not begin a new slab when the rest of the present one is too short, which
	// would waste that rest; it gets an allocation of its own.
	slabSize  = 32 << 10
	slabAlone = 8
	// packedSlabSize is slabSize for many packed objects. They change seldom, and are of the sizes for which the heap
	// would round an allocation up by a tenth. packRatio is about what packing makes of an object.
	packedSlabSize = 256 << 10
	packRatio      = 8
	// packWorth is the size in bytes from which an object is packed, and packStep how many bytes are packed in a step,
	// which takes 10 ms.
	packWorth = 4 << 10
	packStep  = 1 << 20
)

// fragmented reports whether a step of defragmenting the collection is worth it: enough was written, or it has begun.
// With forget, objects that stayed because of the log count as well.
func (c *collection) fragmented(forget bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.written
	if forget {
		n += c.stayed
	}
	if c.packs {
		return c.defragmented != "" || n > 0
	}
	return c.defragmented != "" || n >= max(defragmentStep, c.tree.Load().objects.Len()/4)
}

// defragmenting reports whether a defragmentation that has begun needs another step.
func (c *collection) defragmenting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.defragmented != ""
}

// defragment moves the objects that follow the ones moved last, up to a bound, and returns how many bytes it moved.
// Objects that the log has as well stay, since moving them would duplicate them.
func (c *collection) defragment() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.tree.Load()
	next := now.edit()
	if c.defragmented == "" {
		c.written, c.stayed = 0, 0
		c.slab = slab{size: min(packedSlabSize, c.toPack(now)/packRatio)}
	}
	first, _ := bounds("", c.defragmented)
	var s slab
	var sets recentSets
	n, unpacked, more := 0, 0, false
	now.objects.Ascend(first, func(path string, o *resources.Object) bool {
		if n == defragmentStep || unpacked >= packStep || s.placed >= defragmentBytes {
			more = true
			return false
		}
		n++
		if c.defragmented = path; o.Revision > c.logStart {
			c.stayed++
			return true
		}
		switch {
		case o.IsPacked(), o.Unreadable() != nil:
		case c.isToPack(o):
			unpacked += len(o.Data)
			next.set(path, o.Packed(c.slab.place, sets.share))
		default:
			next.set(path, o.Moved(s.placeSmall, sets.share))
		}
		return true
	})
	if !more {
		c.defragmented, c.slab = "", slab{}
	}
	c.tree.Store(next)
	return max(s.placed, unpacked)
}

// toPack is the number of bytes of the objects that a defragmentation is going to pack.
func (c *collection) toPack(t *tree) (n int) {
	if !c.packs {
		return 0
	}
	t.objects.Ascend("", func(_ string, o *resources.Object) bool {
		if c.isToPack(o) {
			n += len(o.Data)
		}
		return true
	})
	return n
}

// isToPack reports whether a defragmentation packs an object.
func (c *collection) isToPack(o *resources.Object) bool {
	return c.packs && o.Revision <= c.logStart && !o.IsPacked() && o.Unreadable() == nil && len(o.Data) >= packWorth
}

// slab allocates long-lived bytes side by side.
type slab struct {
	size   int // of what is allocated together; 0: slabSize
	free   []byte
	placed int
}

func (s *slab) place(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	if len(b) > len(s.free) {
		size := cmp.Or(s.size, slabSize)
		if len(b) > size/slabAlone {
			s.placed += len(b)
			return bytes.Clone(b)
		}
		s.free = make([]byte, size)
	}
	placed := s.free[:len(b):len(b)]
	s.free = s.free[len(b):]
	s.placed += copy(placed, b)
	return placed
}

// placeSmall leaves bytes where they are if the heap keeps them in a span of their own: nothing is gained by moving
// those, and copying large objects takes long.
func (s *slab) placeSmall(b []byte) []byte {
	if len(b) > slabSize {
		return b
	}
	return s.place(b)
}

// recentSets are sets of labels or fields of recent objects. Objects come in the order of paths, so the next ones are
// likely to have the same sets.
type recentSets struct {
	sets [16]map[string]string
	next int
}

// share returns an equal set, if possible one that other objects have.
func (r *recentSets) share(set map[string]string) map[string]string {
	for _, known := range r.sets {
		if maps.Equal(known, set) && (known == nil) == (set == nil) {
			return known
		}
	}
	r.sets[r.next%len(r.sets)] = set
	r.next++
	return set
}
