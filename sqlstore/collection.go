package sqlstore

import (
	"sort"
	"sync"
	"sync/atomic"

	"github.com/rowlock/rowlock/resources"
)

// collection is the store's cache of one resource type.
type collection struct {
	resource string
	packs    bool // Options.Packed
	// tree is the present state. It is replaced under mu and read without mu.
	tree atomic.Pointer[tree]

	mu sync.Mutex
	// log holds, in order, every change of the type with a revision greater than logStart, up to tree.last.
	log      []*resources.Event
	logStart int64
	// followers are the watches with a Wake, which learn of a change before its writer is answered: they are few.
	// watchers are the other watches; a goroutine tells them after that.
	followers []*watch
	watchers  watcherSet
	// announced is the last change that was announced. It is behind tree.last while a batch is being applied.
	announced int64
	wakeRound
	// replaced counts the bytes of objects that left the tree, replaced or deleted.
	replaced atomic.Int64
	// written counts the changes since the last defragmentation; see Store.DefragmentHeap.
	written int
	// stayed counts the objects that the last defragmentation did not move, because the log has them.
	stayed int
	// defragmented is the path up to which a running defragmentation has come; empty when none runs.
	defragmented string
	// slab is where a running defragmentation puts the objects that it packs.
	slab slab
}

// after returns the changes in the log after a revision, and whether the log reaches back that far. Called with mu.
func (c *collection) after(revision int64) ([]*resources.Event, bool) {
	i := sort.Search(len(c.log), func(i int) bool { return c.log[i].Revision > revision })
	return c.log[i:], revision >= c.logStart
}

// advance takes committed changes into the tree and the log. From here on reads can see the changes, unless they wait
// until the store is at their revision.
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

// replace sets a state whose history is unknown: the log begins after it.
func (c *collection) replace(t *tree) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tree.Store(t)
	c.log, c.logStart = nil, t.last
	c.loaded()
}

// loaded notes that the objects of the tree still lie in the memory that the database's answer was read into, and that
// none is packed. Called with mu, or before another goroutine knows the collection.
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

// logBudget bounds what the logs of all collections hold; the change with the lowest revision is evicted first. It is
// guarded by Store.applying.
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

// evictTo evicts everything up to a revision: changes that were pruned from history are not kept in memory either,
// where they would stay for ever if little is written.
func (b *logBudget) evictTo(revision int64) {
	for len(b.queue) > 0 && b.queue[0].revision <= revision {
		b.evictFirst()
	}
	if len(b.queue) == 0 {
		b.queue = nil
	}
}

// eventOverhead is about how many bytes an event takes beside its objects, including its places in the log and the
// budget.
const eventOverhead = 192

// eventSize is about how many bytes it costs to keep an event: those of the object before it and of the encodings made
// of that object for watchers, which nothing else keeps. The object after it costs nothing while the tree has it;
// afterwards it is the object before of a later event. A deletion's object is in no tree.
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
