package record

import (
	"context"
	"math/rand/v2"
	"sort"
	"time"

	"github.com/rowlock/rowlock/e2e/checker/history"
)

const (
	// slowLists is how many lists in pages there are for each that pauses between its pages, where servers prune.
	slowLists = 30
	// toldEvery is how often a revision is remembered with its time.
	toldEvery = 10 * time.Millisecond
)

// told is the highest revision that any client was told by a time.
type told struct{ time, revision int64 }

// remember remembers the highest revision. Called with mu.
func (r *recorder) remember() {
	if now := r.now(); r.age > 0 && (len(r.told) == 0 || now-r.told[len(r.told)-1].time >= int64(toldEvery)) {
		r.told = append(r.told, told{now, r.latest})
	}
}

// aboutToGo returns a revision that is about as old as revisions become, so that servers are just about to prune it, or just have; false: there is none.
func (r *recorder) aboutToGo(random *rand.Rand) (int64, bool) {
	if r.age == 0 {
		return 0, false
	}
	at := r.now() - int64(r.age)*(80+random.Int64N(50))/100
	r.mu.Lock()
	defer r.mu.Unlock()
	i := sort.Search(len(r.told), func(i int) bool { return r.told[i].time > at })
	if i == 0 {
		return 0, false
	}
	return max(r.history.Start, r.told[i-1].revision), true
}

// lag makes some watches, where servers prune, wait before they are resumed, up to somewhat longer than history is kept. Those that a history needs to be
// complete do not wait: the first of each server, and those at the end.
func (r *recorder) lag(ctx context.Context, w *history.Watch) {
	if w.Client <= -2-len(r.targets) && rand.IntN(2) == 0 {
		r.sleep(ctx, r.aWhile())
	}
}

// aWhile is a time up to somewhat longer than history is kept; 0, where servers do not prune.
func (r *recorder) aWhile() time.Duration {
	if r.age == 0 {
		return 0
	}
	return rand.N(r.age * 3 / 2)
}

// sleep waits, until the history has ended at most.
func (r *recorder) sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-r.ended:
	case <-time.After(d):
	}
}
