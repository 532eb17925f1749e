package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/utils/clock"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/files"
)

// Store implements resources.Store on a SQL database. It is safe for concurrent use.
type Store struct {
	options Options
	clock   clock.Clock
	opened  time.Time
	logger  *slog.Logger
	lock    *fileLock
	db      *database
	sealer  *sealer // of the database
	metrics *metrics

	collections sync.Map   // of *collection, by resource
	creating    sync.Mutex // held while a collection is added
	revisions   revisions
	loaded      atomic.Int64 // the revision that the cache was loaded at
	floor       atomic.Int64 // as in the table meta, or behind it for a moment
	pastCache   *pastCache
	catchUps    *catchUps

	queue        *queue
	committed    chan struct{} // closed when the committer has ended
	closing      atomic.Bool
	failure      failure
	placed       func() error       // the driver's inPlace
	saidMoved    atomic.Bool        // whether the log says that the store has moved
	saidGone     atomic.Bool        // whether the log says that the file is not in its place
	probes       singleflight.Group // of Ready
	historyBytes atomic.Int64

	waking sync.WaitGroup // the goroutines that wake watchers

	// applying is held by the goroutine that changes the cache, and guards position.
	applying turn
	position position
	noted    string // the ages of history, as last noted before the store was opened; see janitor.noteAges
	budget   logBudget

	unresolved *batch // a batch whose outcome is unknown; only the committer's goroutine uses it
	uncut      bool   // a batch that was to prune failed; only the committer's goroutine uses it
	peers      *peers // nil: no other server writes to the database

	janitor  *janitor
	recorder *recorder
}

var _ resources.Store = (*Store)(nil)

// Open opens the database of a store, creates it if it does not exist, and loads its objects. Close ends it.
//
// Errors: *migrations.DirtyError, *migrations.NewerError; an error if another process has the database open;
// resources.ErrUnavailable; those of the file system.
func Open(ctx context.Context, options Options) (_ *Store, err error) {
	if err := options.complete(); err != nil {
		return nil, err
	}
	s := &Store{options: options, sealer: options.sealer, clock: options.Clock, logger: options.Logger, queue: newQueue(options.limits), applying: newTurn(),
		committed: make(chan struct{}), budget: logBudget{limit: options.LogSize}}
	s.opened = s.clock.Now()
	s.recorder = &recorder{store: s, options: options.ObjectHistory, metrics: newRecorderMetrics(), reads: make(chan struct{}, recordedReads)}
	s.revisions.clock, s.pastCache = s.clock, newPastCache(s.clock)
	s.catchUps = newCatchUps(s.clock, func() { s.janitor.at(forget, s.clock.Now().Add(segmentsAge)) },
		func(ctx context.Context, q historyQuery) (historyAnswer, error) { return s.db.history(ctx, q) })
	defer func() {
		if err != nil {
			err = errors.Join(err, s.release())
		}
	}()
	if err := s.connect(ctx); err != nil {
		return nil, advised(err)
	}
	s.db.limits, s.db.sealer, s.placed = s.options.limits, s.sealer, s.db.inPlace
	if err := s.Await(ctx, func() error { return s.load(ctx) }); err != nil {
		if s.peers == nil && ctx.Err() == nil {
			err = advisedOfRows(err)
		}
		return nil, err
	}
	if s.metrics, err = newMetrics(s, options.Registerer); err != nil {
		return nil, err
	}
	if s.db.gate != nil {
		s.db.gate.empty = func() {
			if !s.queue.putTask(s.trimLog) {
				s.db.gate.open()
			}
		}
	}
	s.janitor = newJanitor(s)
	go s.commitAll()
	go s.janitor.run()
	if s.peers != nil {
		go s.peers.listen.run()
	}
	return s, nil
}

// connect opens the database that the options name.
func (s *Store) connect(ctx context.Context) (err error) {
	if err := CheckURL(s.options.URL); err != nil {
		return err
	}
	if err := CheckSchema(s.options.URL, s.options.Schema); err != nil {
		return err
	}
	if isPostgres(s.options.URL) {
		if err := s.options.Begin(); err != nil {
			return err
		}
		var d *postgresDriver
		if s.db, d, err = openPostgres(ctx, &s.options); err == nil {
			s.peers = newPeers(s, d)
		}
		return err
	}
	path, err := sqlitePath(s.options.URL)
	if err != nil {
		return err
	}
	if err := files.MakeDir(filepath.Dir(path)); err != nil {
		return err
	}
	if s.lock, err = s.options.lockStore(ctx, path); err != nil {
		return err
	}
	claimed, err := openClaimed(path, s.logger)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	if err := s.options.Begin(); err != nil {
		return errors.Join(err, unclaim(claimed))
	}
	if s.db, err = openSQLite(ctx, path, claimed, s.options.Synchronous, s.logger); err == nil {
		s.options.Progress.usable.Store(true)
	}
	return err
}

// load fills the cache.
func (s *Store) load(ctx context.Context) error {
	trees, m, err := s.readTrees(ctx)
	if err != nil {
		return err
	}
	s.loaded.Store(m.revision)
	s.floor.Store(m.floor)
	s.historyBytes.Store(m.historyBytes)
	s.position = position{m.revision, m.at.Int64}
	s.noted = m.ages.String
	s.revisions.current.Store(m.revision)
	for resource, t := range trees {
		c := s.collection(resource)
		c.tree.Store(t)
		c.loaded()
	}
	s.options.Progress.loaded.Store(true)
	return nil
}

// readTrees reads the present state of every type.
func (s *Store) readTrees(ctx context.Context) (map[string]*tree, meta, error) {
	trees, m, err := s.db.load(ctx, s.tree, s.options.Progress, func(objects, about int64) {
		s.logger.Info("reading objects into memory", "objects", objects, "ofAbout", about)
	})
	for _, t := range trees {
		// The last deletion is not in the objects, so the type may have changed as late as now.
		t.last = m.revision
	}
	return trees, m, err
}

// Ready returns nil if the store can serve, also if the disk is full and it serves reads only, or an error that says why it cannot.
// If ctx ends first, that is why the last commit failed: limits for writes are longer than those for health checks, whose callers would
// never learn it otherwise.
func (s *Store) Ready(ctx context.Context) error {
	err := s.ready(ctx)
	if err != nil && ctx.Err() != nil {
		if why := s.failure.get(); why != nil && !errors.Is(why, resources.ErrFull) {
			return why
		}
	}
	return err
}

func (s *Store) ready(ctx context.Context) error {
	if s.closing.Load() {
		return resources.ErrClosed
	}
	if err := s.inPlace(); err != nil {
		return err
	}
	if err := s.failure.get(); err != nil {
		// The last commit failed. Only an attempt shows whether the next one would fail too; without it, a store that
		// gets no writes because it is not ready would never become ready again. A full disk leaves the store ready,
		// because reads go on.
		if err := s.probe(ctx); !errors.Is(err, resources.ErrFull) {
			return err
		}
	}
	if s.peers != nil {
		_, err := s.peers.db.page(ctx, math.MaxInt64, 1, 1) // no rows, only the counter: a page shows which primary it comes from
		return err
	}
	_, err := s.db.revision(ctx)
	return err
}

// Schema returns the schema of a Postgres that has the tables, and "" on SQLite.
func (s *Store) Schema() string {
	if s.peers == nil {
		return ""
	}
	return s.peers.db.schema
}

// inPlace returns an error if the next process that opens the database would not find what this one writes. It is
// logged once, until the database is in its place again.
func (s *Store) inPlace() error {
	err := s.placed()
	if gone := err != nil; s.saidGone.Swap(gone) != gone && gone {
		s.logger.Error("writes are refused: the files of the database are not in their place", "error", err)
	}
	return err
}

// probe makes a durable commit without changes. Concurrent callers share one probe.
func (s *Store) probe(ctx context.Context) error {
	probed := s.probes.DoChan("", func() (any, error) {
		done := make(chan error, 1)
		if !s.queue.putTask(func() {
			err := s.resolve()
			if err == nil {
				err = s.db.touch()
			}
			s.failure.set(err)
			done <- err
		}) {
			return nil, resources.ErrClosed
		}
		select {
		case err := <-done:
			return nil, err
		case <-s.committed: // the store is closed
			return nil, resources.ErrClosed
		}
	})
	select {
	case r := <-probed:
		return r.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends the store: new writes are refused, waiting writes are finished, watches end with resources.ErrClosed. The
// second call does nothing.
func (s *Store) Close() error {
	if !s.closing.CompareAndSwap(false, true) {
		return nil
	}
	s.janitor.stop()
	s.queue.close()
	<-s.committed
	s.db.gate.open()
	if s.peers != nil {
		s.peers.stop()
	}
	s.applied()
	s.waking.Wait()
	s.collections.Range(func(_, c any) bool {
		c.(*collection).wakeAll()
		return true
	})
	s.metrics.unregister()
	s.noteClosed()
	return s.release()
}

// noteClosed stores how old history is. If that fails, or the process is killed, the earlier note remains
// (janitor.note).
func (s *Store) noteClosed() {
	if s.failure.get() != nil {
		return
	}
	if _, err := s.janitor.noteAges(); err != nil {
		s.logger.Info("the age of the history could not be recorded: it is kept for longer", "error", err)
	}
}

func (s *Store) release() error {
	var errs []error
	s.catchUps.stop()
	if s.db != nil {
		errs = append(errs, s.db.close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.release())
	}
	return errors.Join(errs...)
}

// failure remembers how the last commit failed.
type failure struct{ p atomic.Pointer[error] }

func (f *failure) set(err error) {
	if err == nil {
		f.p.Store(nil)
		return
	}
	f.p.Store(&err)
}

func (f *failure) get() error {
	if p := f.p.Load(); p != nil {
		return *p
	}
	return nil
}

// saidBefore reports whether the store has moved and the log says so already. From then on, every retried write of
// every client gets this error.
func (s *Store) saidBefore(err error) bool {
	return errors.Is(err, resources.ErrMoved) && s.saidMoved.Swap(true)
}

// applied waits for a running apply. An apply that begins later finds the store closing, and starts no goroutine.
func (s *Store) applied() {
	s.applying.Lock()
	defer s.applying.Unlock()
}
