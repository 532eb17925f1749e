package sqlstore

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rowlock/rowlock/resources"
)

// brokenDriver is a database that takes no commits.
type brokenDriver struct {
	driver
	err error
}

func (d brokenDriver) begin(after int64) (transaction, *page, error) {
	tx, page, err := d.driver.begin(after)
	return brokenTransaction{tx, d.err}, page, err
}

type brokenTransaction struct {
	transaction
	err error
}

func (t brokenTransaction) commit(*batch) error {
	t.rollback()
	return t.err
}

// When a batch fails, nobody is told of what it would have written: who was refused for it may repeat.
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
