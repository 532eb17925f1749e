package sqlstore

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rowlock/rowlock/resources"
)

// brokenDriver is a database whose commits fail.
type brokenDriver struct {
	driver
	err error
}

func (d brokenDriver) begin(after int64) (transaction, *page, error) {
	tx, page, err := d.driver.begin(after)
	return brokenTransaction{tx, d.err}, page, err
}

// touch fails if the outcome of a commit is to stay unknown.
func (d brokenDriver) touch() error {
	if errors.Is(d.err, resources.ErrUnknownOutcome) {
		return resources.ErrUnavailable
	}
	return d.driver.touch()
}

type brokenTransaction struct {
	transaction
	err error
}

func (t brokenTransaction) commit(*batch) error {
	t.rollback()
	return t.err
}

// When a batch fails, no answer reports its changes: a request that was refused because of them may be repeated.
func TestRefusedByWhatWasNotWritten(t *testing.T) {
	for failure, unknown := range map[error]int{resources.ErrUnavailable: 0, resources.ErrUnknownOutcome: 1} {
		s, err := Open(t.Context(), Options{URL: "sqlite://" + filepath.Join(t.TempDir(), "x.db"), Synchronous: "off"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		gathers, all := make(chan struct{}), make(chan struct{})
		s.queue.putTask(func() {
			close(gathers)
			<-all
			s.db.driver = brokenDriver{s.db.driver, failure}
		})
		<-gathers
		const writers = 4
		errs := make(chan error, writers)
		var put sync.WaitGroup
		put.Add(writers)
		for i := range writers {
			key := configMap("default", "a")
			r := &request{ctx: t.Context(), done: make(chan struct{}), writes: []resources.Write{
				{Op: resources.Create, Key: key, Draft: draft(t, "default", key.Name)}}}
			go func() {
				if !s.queue.put(r) {
					r.answer(fmt.Errorf("request %d was not taken", i))
				}
				put.Done()
				<-r.done
				errs <- r.err
			}()
		}
		put.Wait()
		close(all)
		got := 0
		for range writers {
			err := <-errs
			switch {
			case errors.Is(err, resources.ErrUnknownOutcome):
				got++
			case !errors.Is(err, resources.ErrUnavailable) || errors.Is(err, resources.ErrExists):
				t.Errorf("%v: %v", failure, err)
			}
		}
		if got != unknown {
			t.Errorf("%v: of %d requests the outcome is unknown, want %d", failure, got, unknown)
		}
		gone := make(chan struct{})
		s.queue.putTask(func() {
			s.db.driver = s.db.driver.(brokenDriver).driver
			close(gone)
		})
		<-gone
	}
}

// inOneBatch commits each write as a request of its own, all of them in one batch, and returns their errors.
func inOneBatch(t *testing.T, s *Store, writes ...resources.Write) []error {
	t.Helper()
	commits := make([][]resources.Write, len(writes))
	for i, w := range writes {
		commits[i] = []resources.Write{w}
	}
	return commitInOneBatch(t, s, nil, commits...)
}

// commitInOneBatch is inOneBatch for commits of several writes. before, which may be nil, runs on the committer's
// goroutine right before the batch.
func commitInOneBatch(t *testing.T, s *Store, before func(), commits ...[]resources.Write) []error {
	t.Helper()
	gathers, all := make(chan struct{}), make(chan struct{})
	s.queue.putTask(func() {
		close(gathers)
		<-all
		if before != nil {
			before()
		}
	})
	<-gathers
	requests := make([]*request, len(commits))
	for i, writes := range commits {
		requests[i] = &request{ctx: t.Context(), done: make(chan struct{}), writes: writes}
		if !s.queue.put(requests[i]) {
			t.Fatalf("request %d was not taken", i)
		}
	}
	close(all)
	errs := make([]error, len(commits))
	for i, r := range requests {
		<-r.done
		errs[i] = r.err
	}
	return errs
}

// withARule returns stores, by database, with a constraint: no object may have the name forbidden.
func withARule() map[string]func(t *testing.T) *Store {
	return map[string]func(t *testing.T) *Store{
		"SQLite": func(t *testing.T) *Store {
			h := newSQLiteHarness(t)
			h.pragma(t, `CREATE TRIGGER rule BEFORE INSERT ON current WHEN NEW.name = 'forbidden'
				BEGIN SELECT RAISE(ABORT, 'a rule of the house'); END`)
			return h.store
		},
		"Postgres": func(t *testing.T) *Store {
			h := newPostgresHarness(t)
			if err := h.store.peers.db.run("ALTER TABLE objects ADD CHECK (name <> 'forbidden')").scan(); err != nil {
				t.Fatal(err)
			}
			return h.store
		},
	}
}

// When the database refuses the data of one request, that request fails, as one that must not be repeated, and the
// others of the batch do not.
func TestOnlyTheGuiltyFails(t *testing.T) {
	for name, open := range withARule() {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			first := mustCommit(t, s, createMap(t, "first"))[0]
			errs := inOneBatch(t, s, createMap(t, "a"), createMap(t, "forbidden"), createMap(t, "forbidden"), createMap(t, "b"), createMap(t, "b"))
			for i, want := range []error{nil, resources.ErrRefused, resources.ErrRefused, nil, resources.ErrExists} {
				if err := errs[i]; !errors.Is(err, want) || errors.Is(err, resources.ErrUnavailable) {
					t.Errorf("request %d: %v, want %v", i, err, want)
				}
			}
			if next := mustCommit(t, s, createMap(t, "c"))[0]; next.Revision != first.Revision+3 {
				t.Errorf("revision %d, want %d: each write that succeeded has one", next.Revision, first.Revision+3)
			}
			if err := s.failure.get(); err != nil {
				t.Errorf("a database that works counts as failed: %v", err)
			}
		})
	}
}

// A counter that differs from the batch's beginning is detected before the batch does harm.
func TestForeignCounter(t *testing.T) {
	h := newPostgresHarness(t)
	s := h.store
	made := mustCommit(t, s, createMap(t, "a"))[0]
	tx, _, err := s.db.begin(made.Revision)
	if err != nil {
		t.Fatal(err)
	}
	p := &batchBuilder{state: s.tree, revision: made.Revision + 1}
	if _, err := p.add([]resources.Write{createMap(t, "b")}, expiry, h.clock.Now()); err != nil {
		t.Fatal(err)
	}
	if err := tx.commit(&batch{at: 1, revision: p.revision, changes: p.changes}); !errors.Is(err, resources.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	if next := mustCommit(t, s, createMap(t, "b"))[0]; next.Revision != made.Revision+1 {
		t.Errorf("revision %d after %d", next.Revision, made.Revision)
	}
}
