package authn

import (
	"context"
	"sync"
	"time"

	"github.com/rowlock/rowlock/resources"
)

const (
	// latestPause is the minimal interval between the beginnings of two reads of tokens that other servers have issued.
	latestPause = 50 * time.Millisecond
	// latestTimeout bounds a read.
	latestTimeout = 10 * time.Second
)

// latestRows reads the most recent rows of a resource, for lookups of a row that this server does not have. Unauthenticated clients can
// cause such lookups, so the database is not queried for each: they wait together for the next read, which begins after all of them have
// arrived. A token that another server has just issued is therefore accepted, however many lookups there are for tokens that do not
// exist. Only one read runs at a time: if the database hangs, this takes one connection, not one more every latestPause.
type latestRows struct {
	rows     *resources.Rows
	resource string

	mu    sync.Mutex
	next  *look     // has not begun; nil: no lookup waits
	last  time.Time // when a read began last
	looks bool      // a read is running
}

// look is one read of the rows.
type look struct {
	done chan struct{} // closed when the other fields are set
	all  resources.Snapshot
	err  error
}

// get returns a row from a read that begins after the call. Errors: those of Reader.Snapshot, ErrNotFound.
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

// join returns the next read.
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

// begin schedules a read as soon as latestPause allows. The caller holds mu.
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
