package sqlstore

import (
	"container/list"
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/rowlock/rowlock/resources"
)

const (
	// pastCacheMax bounds the bytes of all past states together: those that are being computed, those that lists are
	// being written from, and those that are kept. A list that alone needs more is answered with 410.
	pastCacheMax = 64 << 20
	// pastCacheMost is how many states are kept at most: every batch looks at each, and a state that equals the present
	// one takes a few hundred bytes that are not counted.
	pastCacheMost = 512
	// pastCacheAge is how long a state is kept after its last use.
	pastCacheAge = time.Minute
	// pastCacheWait is how long a list waits for room.
	pastCacheWait = 3 * time.Second
)

// pastCache bounds the past states that lists at older revisions are made from, and keeps those that were used
// recently: all pages of a list need the same one.
//
// A state costs the objects that only it holds, because they are no longer in the present state. Objects that were
// replaced before it was computed are counted exactly, until the garbage collector has freed the state (live): a client
// that reads slowly holds a state long after it was dropped here. Objects that were replaced later are counted only for
// the kept states, which are dropped as far as they hold more than half of the bound.
type pastCache struct {
	clock  clock.Clock
	max    int64
	most   int
	wait   time.Duration
	making chan struct{} // has a value while a state is being computed: one at a time, through one connection

	mu    sync.Mutex
	byKey map[pastKey]*list.Element
	order list.List     // of *pastEntry, the most recently used in front
	live  int64         // bytes
	freed chan struct{} // closed when live falls
}

type pastKey struct {
	resource string
	revision int64
}

type pastEntry struct {
	key  pastKey
	tree *tree
	used time.Time

	size       int64 // bytes that were counted when it was computed
	collection *collection
	replaced   int64 // collection.replaced when it was computed
}

// holds is an upper bound of the bytes that dropping the entry would free.
func (e *pastEntry) holds() int64 { return e.size + e.collection.replaced.Load() - e.replaced }

func newPastCache(c clock.Clock) *pastCache {
	return &pastCache{clock: c, max: pastCacheMax, most: pastCacheMost, wait: pastCacheWait, making: make(chan struct{}, 1),
		byKey: map[pastKey]*list.Element{}, freed: make(chan struct{})}
}

// enter waits for its turn to compute a state. The caller ends its turn with leave.
func (p *pastCache) enter(ctx context.Context) (leave func(), err error) {
	select {
	case p.making <- struct{}{}:
		return func() { <-p.making }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// tooLargeError says that a state alone exceeds the bound of all states.
type tooLargeError struct{}

func (*tooLargeError) Error() string { return "too much has changed since" }

// reserve makes room for more bytes of a state that has some already. Errors: *tooLargeError, resources.ErrBusy, the
// context's.
func (p *pastCache) reserve(ctx context.Context, bytes, has int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if has+bytes > p.max {
		return &tooLargeError{}
	}
	if p.live+bytes > p.max {
		if err := p.makeRoom(ctx, bytes); err != nil {
			return err
		}
	}
	p.live += bytes
	return nil
}

// makeRoom waits until there is room. Only the garbage collector finds states without a holder, so it has to run; if
// that frees too little, kept states are dropped. Called with mu, which it releases meanwhile.
func (p *pastCache) makeRoom(ctx context.Context, bytes int64) error {
	timer := time.NewTimer(p.wait)
	defer timer.Stop()
	for round := 0; p.live+bytes > p.max; round++ {
		if round == 1 {
			p.clearKept()
		}
		freed := p.freed
		p.mu.Unlock()
		if round < 2 {
			runtime.GC()
		}
		err := func() error {
			pause := time.NewTimer(p.wait / 8) // then check whether the next round can free more
			defer pause.Stop()
			select {
			case <-freed:
			case <-pause.C:
			case <-timer.C:
				return fmt.Errorf("%w: lists at past revisions take all the memory that they may", resources.ErrBusy)
			case <-ctx.Done():
				return ctx.Err()
			}
			return nil
		}()
		p.mu.Lock()
		if err != nil {
			return err
		}
	}
	return nil
}

// release returns reserved bytes.
func (p *pastCache) release(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live -= bytes
	close(p.freed)
	p.freed = make(chan struct{})
}

// get returns a kept state, or nil.
func (p *pastCache) get(key pastKey) *tree {
	p.mu.Lock()
	defer p.mu.Unlock()
	e, ok := p.byKey[key]
	if !ok {
		return nil
	}
	entry := e.Value.(*pastEntry)
	entry.used = p.clock.Now()
	p.order.MoveToFront(e)
	return entry.tree
}

// add keeps a state, whose bytes are reserved, and counts them until the garbage collector has freed it.
func (p *pastCache) add(entry *pastEntry) {
	runtime.AddCleanup(entry.tree, p.release, entry.size)
	entry.used = p.clock.Now()
	p.mu.Lock()
	p.byKey[entry.key] = p.order.PushFront(entry)
	p.mu.Unlock()
	p.trim()
}

// trim drops kept states, the least recently used first, until they hold at most half of the bound and are no more than
// most. It is cheap if there are none: every batch calls it, since it may have replaced objects that they hold.
func (p *pastCache) trim() {
	p.mu.Lock()
	defer p.mu.Unlock()
	room, kept := p.max/2, 0
	for e := p.order.Front(); e != nil; {
		next := e.Next()
		kept++
		if room -= e.Value.(*pastEntry).holds(); room < 0 || kept > p.most {
			p.drop(e)
		}
		e = next
	}
}

// expire drops states that were not used for pastCacheAge, and returns when to look again (zero: none is left).
func (p *pastCache) expire(now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return dropUnused(&p.order, now, pastCacheAge, func(kept any) time.Time { return kept.(*pastEntry).used }, p.drop)
}

// dropUnused drops what was not used for an age, from the end of a list whose front was used last, and returns when to
// look again (zero: none is left).
func dropUnused(order *list.List, now time.Time, age time.Duration, used func(kept any) time.Time, drop func(*list.Element)) time.Time {
	for e := order.Back(); e != nil; e = order.Back() {
		if due := used(e.Value).Add(age); due.After(now) {
			return due
		}
		drop(e)
	}
	return time.Time{}
}

// forget drops a state, if it is kept.
func (p *pastCache) forget(key pastKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e, ok := p.byKey[key]; ok {
		p.drop(e)
	}
}

// clear drops all kept states.
func (p *pastCache) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clearKept()
}

// clearKept is clear, called with mu.
func (p *pastCache) clearKept() {
	clear(p.byKey)
	p.order.Init()
}

func (p *pastCache) drop(e *list.Element) {
	p.order.Remove(e)
	delete(p.byKey, e.Value.(*pastEntry).key)
}
