package sqlstore

import (
	"bytes"
	"errors"
	"maps"

	"github.com/rowlock/rowlock/resources"
)

// DefragmentHeap moves the objects in the cache together, those of each type of which a good part was written since. Objects
// that stay lie scattered among the places that requests have used and left, and each keeps a span of the heap from being
// given back to the system: after many writes that is more than the objects take.
//
// The logs in memory hold objects where they are, and are as scattered themselves. With forget they are forgotten: who is
// behind reads on from the database. Without, the objects in them stay where they are until the next time.
//
// Large objects of the types of Options.Packed are packed when they are moved. The trees alone have packed objects: who reads, watches or
// commits is given none.
//
// Pages of the database that connections keep are let go in the end, too.
//
// Moved is told how many bytes were moved, after each step; DefragmentHeap ends when it returns false. Nobody waits for more
// than a step.
func (s *Store) DefragmentHeap(forget bool, moved func(bytes int) bool) {
	forgotten := false
	s.collections.Range(func(_, value any) bool {
		c := value.(*collection)
		for more := c.fragmented(forget); more; more = c.defragmenting() {
			if forget && !forgotten {
				s.forgetLogs()
				forgotten = true
			}
			s.pastCache.clear() // they would keep the objects where they were
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
	// defragmentStep is how many objects are moved at a time.
	defragmentStep = 512
	// slabSize is how many bytes lie together. One object that stays keeps the rest of its slab. What has more than slabAlone does not
	// begin a slab where the rest of one is too short: it would leave a good part of that to nobody, and is a place of the heap by itself.
	slabSize  = 32 << 10
	slabAlone = slabSize / 8
	// packWorth is how many bytes an object has that is packed, and packStep how many are packed in a step, which takes 10 ms.
	packWorth = 4 << 10
	packStep  = 1 << 20
)

// fragmented tells whether a step of defragmenting the collection is worth it: enough was written, or it has begun. What the log
// held where it was counts when that is forgotten.
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

// defragmenting tells whether there is another step of what has begun.
func (c *collection) defragmenting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.defragmented != ""
}

// defragment moves some objects, those that follow the ones moved last, and returns how many bytes these are. Objects that
// the log has as well stay, since they would be there twice.
func (c *collection) defragment() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.tree.Load()
	next := now.edit()
	if c.defragmented == "" {
		c.written, c.stayed = 0, 0
	}
	first, _ := bounds("", c.defragmented)
	var s slab
	var sets recentSets
	n, unpacked, more := 0, 0, false
	now.objects.Ascend(first, func(path string, o *resources.Object) bool {
		if n == defragmentStep || unpacked >= packStep {
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
		case c.packs && len(o.Data) >= packWorth:
			unpacked += len(o.Data)
			next.set(path, o.Packed(s.place, sets.share))
		default:
			next.set(path, o.Moved(s.place, sets.share))
		}
		return true
	})
	if !more {
		c.defragmented = ""
	}
	c.tree.Store(next)
	return max(s.placed, unpacked)
}

// slab places side by side what is going to stay.
type slab struct {
	free   []byte
	placed int
}

func (s *slab) place(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	if len(b) > len(s.free) {
		if len(b) > slabAlone {
			s.placed += len(b)
			return bytes.Clone(b)
		}
		s.free = make([]byte, slabSize)
	}
	placed := s.free[:len(b):len(b)]
	s.free = s.free[len(b):]
	s.placed += copy(placed, b)
	return placed
}

// recentSets are sets of labels or fields that objects had which are near in the order of paths, and are likely to be
// those of the next ones.
type recentSets struct {
	sets [16]map[string]string
	next int
}

// share returns an equal set, the same for many objects if it can.
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
