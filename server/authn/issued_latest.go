package authn

import (
	"context"
	"sync"
	"time"

	"github.com/rowlock/rowlock/resources"
)

const (
	// latestPause is how long after the beginning of one look for tokens that other servers have made the next one may begin.
	latestPause = 50 * time.Millisecond
	// latestTimeout bounds a look.
	latestTimeout = 10 * time.Second
)

// latestRows are the rows of a resource as they are most recently, for those who ask for one that this server has not heard of. Anybody
// can do so, without credentials, so that the database is not asked for each of them: they wait for the next look together, which
// begins after all of them have come. So whoever has a token that another server has just given out is let in, however many ask for
// what is not there. There is one look at a time: a database that hangs has one connection taken by this, not one more every latestPause.
type latestRows struct {
	rows     *resources.Rows
	resource string

	mu    sync.Mutex
	next  *look     // has not begun; nil: nobody waits
	last  time.Time // when one has begun
	looks bool      // the last has not ended
}

// look is one look at the database.
type look struct {
	done chan struct{} // closed when the rest is known
	all  resources.Snapshot
	err  error
}

// get returns a row as it was after the call. Errors: those of Reader.Snapshot, ErrNotFound.
func (l *latestRows) get(ctx context.Context, name string) (*resources.Object, error) {
	n := l.join()
	select {
	case <-n.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if n.err != nil {
		return nil, n.err
	}
	if o := n.all.Get("", name); o != nil {
		return o, nil
	}
	return nil, resources.ErrNotFound
}

// join returns the look that comes next.
func (l *latestRows) join() *look {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil {
		l.next = &look{done: make(chan struct{})}
		if !l.looks {
			l.begin(l.next)
		}
	}
	return l.next
}

// begin has a look begin as soon as it may. The caller holds mu.
func (l *latestRows) begin(n *look) {
	time.AfterFunc(time.Until(l.last.Add(latestPause)), func() { l.look(n) })
}

func (l *latestRows) look(n *look) {
	defer close(n.done)
	l.mu.Lock()
	l.next, l.last, l.looks = nil, time.Now(), true
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), latestTimeout)
	defer cancel()
	n.all, n.err = l.rows.Snapshot(ctx, l.resource, resources.At{Match: resources.MostRecent})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looks = false
	if l.next != nil {
		l.begin(l.next)
	}
}
