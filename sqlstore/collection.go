package sqlstore

import (
	"sort"
	"sync"
	"sync/atomic"

	"github.com/rowlock/rowlock/resources"
)

// collection is what the store knows of one resource type.
type collection struct {
	resource string
	packs    bool // Options.Packed
	// tree is the present state. It is replaced under mu and read without.
	tree atomic.Pointer[tree]

	mu sync.Mutex
	// log holds, in order, every change of the type with a revision greater than logStart, up to tree.last.
	log      []*resources.Event
	logStart int64
	// followers are the watches with a Wake, which are told of a change before its writer is answered: they are few. watchers are the
	// others, which a goroutine tells after that.
	followers []*watch
	watchers  watcherSet
	// announced is the last change that was announced. It is behind tree.last while a batch is being applied.
	announced int64
	wakeRound
	// replaced counts the bytes of objects that left the tree, replaced or deleted.
	replaced atomic.Int64
	// written counts the changes since objects were moved together; see Store.DefragmentHeap.
	written int
	// stayed counts the objects that stayed where they were then, because the log has them.
	stayed int
	// defragmented is the path up to which they were; empty when that is not under way.
	defragmented string
}

// after returns the changes in the log after a revision, and whether the log reaches back that far. Called with mu.
func (c *collection) after(revision int64) ([]*resources.Event, bool) {
	i := sort.Search(len(c.log), func(i int) bool { return c.log[i].Revision > revision })
	return c.log[i:], revision >= c.logStart
}

// advance takes committed changes into the tree and the log. The changes are visible to reads from here on, if these
// do not hold back until the store is at their revision.
func (c *collection) advance(events []*resources.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := c.tree.Load().edit()
	for _, e := range events {
		if e.Prev != nil {
			c.replaced.Add(e.Prev.Size())
		}
		if e.Op == resources.Delete {
			next.set(e.Object.Path(), nil)
		} else {
			next.set(e.Object.Path(), e.Object)
		}
	}
	next.last = events[len(events)-1].Revision
	c.tree.Store(next)
	c.log = append(c.log, events...)
	c.written += len(events)
}

// replace puts a state in place that may have come about in any way: nothing is known of the changes before it.
func (c *collection) replace(t *tree) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tree.Store(t)
	c.log, c.logStart = nil, t.last
	c.loaded()
}

// loaded notes that the objects of the tree are where the database's answer was read to, none of them packed. Called with mu, or before
// anybody knows the collection.
func (c *collection) loaded() {
	if c.packs {
		c.written = c.tree.Load().objects.Len()
	}
}

// evict drops the oldest change of the log, which is at the given revision.
func (c *collection) evict(revision int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log[0] = nil // the array behind the slice outlives this
	if c.log = c.log[1:]; len(c.log) == 0 {
		c.log = nil
	}
	c.logStart = revision
}

// logBudget bounds what the logs of all collections hold, oldest revision out first. It belongs to who
// holds Store.applying.
type logBudget struct {
	limit, used int64
	queue       []logEntry
}

type logEntry struct {
	collection *collection
	revision   int64
	size       int64
}

// add counts changes of a collection. Callers add in the order of revisions.
func (b *logBudget) add(c *collection, e *resources.Event) {
	size := eventSize(e)
	b.queue = append(b.queue, logEntry{c, e.Revision, size})
	b.used += size
}

// trim evicts until the budget holds.
func (b *logBudget) trim() {
	for b.used > b.limit {
		b.evictFirst()
	}
}

func (b *logBudget) evictFirst() {
	e := b.queue[0]
	b.queue = b.queue[1:]
	b.used -= e.size
	e.collection.evict(e.revision)
}

// evictTo evicts everything up to a revision: what history has pruned is not to be kept in memory, or it would be there for
// ever where little is written.
func (b *logBudget) evictTo(revision int64) {
	for len(b.queue) > 0 && b.queue[0].revision <= revision {
		b.evictFirst()
	}
	if len(b.queue) == 0 {
		b.queue = nil
	}
}

// eventOverhead is about what an event takes beside its objects, with its places in the log and in the budget.
const eventOverhead = 192

// eventSize is about what keeping an event costs in bytes: the object before it, with the encodings that were made of that
// for watchers, which nothing else keeps. The object after it costs nothing as long as the tree has it; once it has not,
// there is a later event whose object before it is. That of a deletion is in no tree.
func eventSize(e *resources.Event) int64 {
	n := int64(eventOverhead)
	if e.Prev != nil {
		n += e.Prev.Size()
	}
	if e.Op == resources.Delete {
		n += e.Object.Size()
	}
	return n
}
