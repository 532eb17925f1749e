package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rowlock/rowlock/resources"
)

// peers brings changes that other servers write into the same database into the cache. Store.peers is nil for SQLite, whose
// file has only one server.
type peers struct {
	store   *Store
	db      *postgresDriver
	recent  recent
	reading turn // held by the one that reads the log through step
	listen  listener
	session *Session           // nil: there is a pooler in between
	cancel  context.CancelFunc // ends the goroutines of the peers
	healing atomic.Bool        // the committer is about to heal
}

func newPeers(s *Store, d *postgresDriver) *peers {
	ctx, cancel := context.WithCancel(context.Background())
	p := &peers{store: s, db: d, reading: newTurn(), cancel: cancel}
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

// refresh returns when the cache has everything that was committed before the call. Errors: resources.ErrUnavailable,
// the context's.
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
		revision = 0 // the counter went back: the cache has revisions that the database has lost
	}
	return p.catchUp(ctx, p.db, revision)
}

// catchUp brings the cache to a revision; if it has to query the database, also to the counter of that time. 0 means:
// query in any case. It reads page after page, each of which stays in the cache: a server that is far behind gets
// further with every attempt. Errors: resources.ErrUnavailable, the context's.
func (p *peers) catchUp(ctx context.Context, from asker, revision int64) error {
	for {
		found, err := p.step(ctx, from, revision)
		if err != nil || found == nil || found.complete(p.store.revisions.current.Load()) {
			return err
		}
		revision = found.revision // later changes are not waited for
	}
}

// step brings the cache forward by a page, which it returns, or nil if the cache is at the revision.
//
// The committer holds applying until its own COMMIT is answered. step does not wait for that lock if the cache has the
// revision, or gets it from the committer meanwhile: the cache never goes back, so a cache at the revision needs no
// lock.
//
// The page is read without applying, for which the committer waits while it holds the counter, and all servers with it:
// the read may have to wait for a connection. So the committer may bring the cache further before step takes the page.
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
	if locked, err := p.reading.lockUnless(ctx, reached); err != nil || !locked {
		return nil, err
	}
	defer p.reading.Unlock()
	if locked, err := s.applying.lockUnless(ctx, reached); err != nil || !locked {
		return nil, err
	}
	seen := s.position
	s.applying.Unlock()
	if revision > 0 && seen.revision >= revision {
		return nil, nil
	}
	found, err := p.page(ctx, from, seen.revision)
	if err != nil {
		return nil, err
	}
	if locked, err := s.applying.lockUnless(ctx, reached); err != nil || !locked {
		return nil, err
	}
	defer s.applying.Unlock()
	err = s.take(found, seen)
	if errors.Is(err, errAstray) {
		p.healLater()
		return nil, fmt.Errorf("%w: %w", resources.ErrUnavailable, err)
	}
	return found, err
}

// page reads the next page of the log. If nothing of it has come within limits.ping, it asks through a new connection as well, and the first answer
// counts, within limits.read: a connection may be lost without a sign, and all that read the log wait for this page. A connection that listens and
// did not answer is given up then, with the locks of its session.
func (p *peers) page(ctx context.Context, from asker, after int64) (*page, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	second := make(chan *page, 1)
	silent := time.AfterFunc(p.db.limits.ping, func() {
		found := p.pageAfresh(ctx, after)
		second <- found
		if found != nil {
			cancel()
		}
	})
	answers := false
	answered := func() { answers = silent.Stop() || answers }
	found, err := pageAfter(context.WithValue(ctx, answering{}, answered), from, after)
	if answered(); answers {
		return found, err
	}
	if err == nil {
		return found, nil
	}
	if fresh := <-second; fresh != nil {
		return fresh, nil
	}
	return nil, err
}

// answering is the key of a context whose value, a func(), is called when the first row of a page arrives.
type answering struct{}

// pageAfresh reads a page through a connection of its own; nil: it could not.
func (p *peers) pageAfresh(ctx context.Context, after int64) *page {
	ctx, cancel := context.WithTimeout(ctx, p.db.limits.read-p.db.limits.ping)
	defer cancel()
	conn, err := p.connect(ctx)
	if err != nil {
		return nil
	}
	defer func() { _ = conn.Close(ctx) }()
	found, err := pageAfter(ctx, connection{conn, p.db}, after)
	if err != nil {
		return nil
	}
	return found
}

// connect returns a connection that is not the pool's.
func (p *peers) connect(ctx context.Context) (*pgx.Conn, error) {
	config := p.db.config.Copy()
	config.DialFunc = probed(config.DialFunc)
	p.db.renew(ctx, config)
	return pgx.ConnectConfig(ctx, config)
}

// errAstray says that the database does not continue the cache, which has to be loaded again.
var errAstray = errors.New("the database is not a continuation of what this server has seen")

// take brings a page that was read at a position into the cache, which may have come further since. Of the page, only
// the changes after the cache's position count, and they have to continue it without a gap (page.events), whenever the
// page was read. Called with applying.
func (s *Store) take(p *page, seen position) error {
	if p.astray(seen) {
		return errAstray
	}
	if p.revision < s.position.revision {
		return nil // all that it tells is older than the cache; it may even come from a primary that was replaced since
	}
	if p.revision > s.position.revision && p.floor > s.position.revision {
		return fmt.Errorf("%w: history was pruned up to %d, the cache is at %d", errAstray, p.floor, s.position.revision)
	}
	s.db.origin.noted(p.actual)
	events, err := p.events(s.position.revision, s.tree)
	if err != nil {
		return fmt.Errorf("%w: %w", errAstray, err)
	}
	if len(p.rows) == 0 && p.revision > s.position.revision {
		return fmt.Errorf("%w: the log has nothing between %d and %d", errAstray, s.position.revision, p.revision)
	}
	if p.floor >= s.floor.Load() { // otherwise the page is from before a prune, which knows better
		s.historyBytes.Store(p.historyBytes)
	}
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

// raiseFloor takes over a floor, which another server may have raised.
func (s *Store) raiseFloor(to int64) {
	for {
		now := s.floor.Load()
		if now >= to || s.floor.CompareAndSwap(now, to) {
			return
		}
	}
}

// healLater makes the committer heal, once for all callers that find the need for it: heal takes the lock of the
// counter, which comes before applying.
func (p *peers) healLater() {
	if p.healing.Swap(true) {
		return
	}
	p.store.queue.putTask(func() {
		defer p.healing.Store(false)
		if err := p.heal(); err != nil {
			p.store.logger.Error("the cache could not be loaded again", "error", err)
		}
	})
}

// heal makes the counter go on beyond every revision that was ever assigned, if the database has lost some of them, and
// loads the cache again. It runs on the committer's goroutine.
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

// reload replaces the cache by the state of the database. Watches that were behind end with resources.ExpiredError,
// because the changes in between are not known. Called with applying.
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
	s.replaceAll(trees, m.revision)
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

// replaceAll replaces the trees of all collections by those of a revision, and makes it the revision of collections that
// are created from now on.
func (s *Store) replaceAll(trees map[string]*tree, revision int64) {
	s.creating.Lock()
	defer s.creating.Unlock()
	s.loaded.Store(revision)
	for resource := range trees {
		s.create(resource)
	}
	s.collections.Range(func(resource, c any) bool {
		t, ok := trees[resource.(string)]
		if !ok {
			t = &tree{}
		}
		t.last = revision
		c.(*collection).replace(t)
		return true
	})
}

// turn is a lock whose callers can stop waiting for it.
type turn chan struct{}

func newTurn() turn    { return make(turn, 1) }
func (t turn) Lock()   { t <- struct{}{} }
func (t turn) Unlock() { <-t }

// lockUnless gives up when needless is closed, or when the context ends, with the context's error.
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
