package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/rowlock/rowlock/resources"
)

// peers keeps the cache up with what other servers write into the same database. A store whose database is its own has
// none.
type peers struct {
	store   *Store
	db      *postgresDriver
	recent  recent
	listen  listener
	session *Session           // nil: a pooler stands between
	cancel  context.CancelFunc // ends what runs for the peers
	healing atomic.Bool        // the committer is about to heal
}

func newPeers(s *Store, d *postgresDriver) *peers {
	ctx, cancel := context.WithCancel(context.Background())
	p := &peers{store: s, db: d, cancel: cancel}
	s.db.origin.astray = p.healLater
	if !d.pooled {
		p.session = newSession(s, d.locks)
		d.self = p.session.id
	}
	p.recent.learn = func() (int64, error) { return d.counter(ctx) }
	p.listen = listener{peers: p, ctx: ctx, done: make(chan struct{})}
	return p
}

func (p *peers) stop() {
	p.cancel()
	<-p.listen.done
	p.recent.wait()
}

// refresh returns when the cache has everything that was committed before it was called. Errors:
// resources.ErrUnavailable, the context's.
func (p *peers) refresh(ctx context.Context) error {
	seen := p.store.revisions.current.Load()
	if p.session != nil {
		p.session.busy()
	}
	revision, err := p.recent.ask(ctx)
	if err != nil {
		return err
	}
	if revision < seen {
		revision = 0 // the counter went back: what is in the cache is not what the database has
	}
	return p.catchUp(ctx, p.db, revision)
}

// catchUp brings the cache to a revision, and on to what there is when it has to ask. 0 means: ask. It reads page after
// page, each of which stays: a server that is far behind comes further with every attempt. Errors:
// resources.ErrUnavailable, the context's.
func (p *peers) catchUp(ctx context.Context, from asker, revision int64) error {
	for {
		found, err := p.step(ctx, from, revision)
		if err != nil || found == nil || found.complete(p.store.revisions.current.Load()) {
			return err
		}
		revision = found.revision // what comes later is not waited for
	}
}

// step brings the cache on by a page, which it returns, or nil if the cache is at the revision.
//
// The committer has applying until its own COMMIT was answered. What the cache has already, or gets from the committer
// before that, is not waited for: the cache never goes back, so who finds it at the revision needs no lock.
func (p *peers) step(ctx context.Context, from asker, revision int64) (*page, error) {
	s := p.store
	var reached <-chan struct{}
	if revision > 0 {
		if s.revisions.current.Load() >= revision {
			return nil, nil
		}
		ready, forget := s.revisions.reached(revision)
		defer forget()
		reached = ready
	}
	if locked, err := s.applying.lockUnless(ctx, reached); err != nil || !locked {
		return nil, err
	}
	defer s.applying.Unlock()
	seen := s.position
	if revision > 0 && seen.revision >= revision {
		return nil, nil
	}
	found, err := pageAfter(ctx, from, seen.revision)
	if err != nil {
		return nil, err
	}
	err = s.take(found, seen)
	if errors.Is(err, errAstray) {
		p.healLater()
		return nil, fmt.Errorf("%w: %w", resources.ErrUnavailable, err)
	}
	return found, err
}

// errAstray says that the cache cannot go on from where it is: it has to be loaded again.
var errAstray = errors.New("the database is not a continuation of what this server has seen")

// take brings a page into the cache, which asked for it at a position. Called with applying.
func (s *Store) take(p *page, seen position) error {
	if p.astray(seen) {
		return errAstray
	}
	if p.revision > s.position.revision && p.floor > s.position.revision {
		return fmt.Errorf("%w: history was pruned up to %d, the cache is at %d", errAstray, p.floor, s.position.revision)
	}
	s.db.origin.noted(p.actual)
	events, err := p.events(s.position.revision, s.tree)
	if err != nil {
		return fmt.Errorf("%w: %w", errAstray, err)
	}
	if len(events) == 0 && p.revision > s.position.revision {
		return fmt.Errorf("%w: the log has nothing between %d and %d", errAstray, s.position.revision, p.revision)
	}
	s.historyBytes.Store(p.historyBytes)
	s.raiseFloor(p.floor)
	s.budget.evictTo(p.floor)
	if len(events) == 0 {
		return nil
	}
	last := p.rows[len(p.rows)-1]
	s.apply(events)
	s.position = position{last.object.Revision, last.at}
	s.janitor.noteForeign(s.clock.Now())
	return nil
}

// raiseFloor takes over what another server has pruned.
func (s *Store) raiseFloor(to int64) {
	for {
		now := s.floor.Load()
		if now >= to || s.floor.CompareAndSwap(now, to) {
			return
		}
	}
}

// healLater has the committer heal, once for all who find that it is needed: to do so needs the lock of the counter, which
// comes before applying.
func (p *peers) healLater() {
	if p.healing.Swap(true) {
		return
	}
	p.store.queue.putTask(func() {
		defer p.healing.Store(false)
		if err := p.heal(); err != nil {
			p.store.logger.Error("the cache could not be loaded again", "err", err)
		}
	})
}

// heal makes the counter go on beyond everything that was ever given out, if the database has lost some of it, and loads
// the cache again. It runs on the goroutine of the committer.
func (p *peers) heal() error {
	s := p.store
	s.applying.Lock()
	seen := s.position
	page, err := pageAfter(context.Background(), p.db, seen.revision)
	if err == nil {
		err = s.take(page, seen)
	}
	s.applying.Unlock()
	if !errors.Is(err, errAstray) {
		return err // nil: another call has healed it
	}
	jumped, err := p.db.settle(seen)
	if err != nil {
		return err
	}
	if jumped {
		s.logger.Warn("the database lost commits, or may have: it was restored, or a replica took over. " +
			"The counter of revisions jumped ahead, watches have to start anew")
	}
	s.applying.Lock()
	defer s.applying.Unlock()
	if err := s.reload(context.Background()); err != nil {
		return err
	}
	s.db.origin.forget()
	return nil
}

// reload replaces the cache by what is in the database. Watches end with resources.ExpiredError if they were behind,
// for what lies between is not known. Called with applying.
func (s *Store) reload(ctx context.Context) error {
	trees, m, err := s.readTrees(ctx)
	if err != nil {
		return err
	}
	if m.revision < s.position.revision {
		return fmt.Errorf("%w: the counter went back to %d", resources.ErrUnavailable, m.revision)
	}
	s.raiseFloor(m.floor)
	s.catchUps.clear()
	s.pastCache.clear()
	s.loaded.Store(m.revision) // for the types that come now
	for resource := range trees {
		s.collection(resource)
	}
	s.collections.Range(func(resource, c any) bool {
		t, ok := trees[resource.(string)]
		if !ok {
			t = &tree{}
		}
		t.last = m.revision
		c.(*collection).replace(t)
		return true
	})
	s.budget.queue, s.budget.used = nil, 0
	s.historyBytes.Store(m.historyBytes)
	s.position = position{m.revision, m.at.Int64}
	s.revisions.advance(m.revision)
	s.collections.Range(func(_, c any) bool {
		c.(*collection).wakeAfterReload(m.revision)
		return true
	})
	s.janitor.noteForeign(s.clock.Now())
	return nil
}

// turn is a lock that one can stop waiting for.
type turn chan struct{}

func newTurn() turn    { return make(turn, 1) }
func (t turn) Lock()   { t <- struct{}{} }
func (t turn) Unlock() { <-t }

// lockUnless gives up when needless is closed, and with the context, with its error.
func (t turn) lockUnless(ctx context.Context, needless <-chan struct{}) (locked bool, err error) {
	select {
	case t <- struct{}{}:
		return true, nil
	case <-needless:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}
