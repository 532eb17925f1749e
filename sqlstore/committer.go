package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// commitAll is the committer: it puts all waiting requests into one transaction, again and again, until the queue is
// closed and empty.
func (s *Store) commitAll() {
	defer close(s.committed)
	for {
		requests, task, ok := s.queue.take()
		if !ok {
			return
		}
		if len(requests) > 0 {
			s.commitBatch(requests)
			s.trimLog()
		}
		if task != nil {
			task()
		}
	}
}

// trimLog keeps the database's write-ahead log bounded.
func (s *Store) trimLog() {
	began := time.Now()
	worked, err := s.db.trimLog()
	if worked {
		s.metrics.kept("checkpoint", began)
	}
	if err != nil && !s.saidGone.Load() { // the log says already that the file is gone
		s.logger.Warn("the write-ahead log could not be truncated", "error", err)
	}
}

// commitBatch commits those requests of a batch that it can, and answers all of them. A database that refuses a batch
// does not say which request is the reason: each is then committed alone, so that the others do not fail with it.
func (s *Store) commitBatch(requests []*request) {
	if s.commitTwice(requests) {
		return
	}
	s.logger.Warn("the database refuses something in a batch, its requests are committed one by one", "requests", len(requests))
	for _, r := range requests {
		if alone := []*request{r}; !s.commitTwice(alone) { // the reason may be the prune, which is then left out
			s.commitTwice(alone)
		}
	}
}

// errAgain says that nothing was written, and that a second attempt goes another way than the first. It comes with
// resources.ErrUnavailable.
var errAgain = errors.New("the next attempt may succeed at once")

// commitTwice is commitTogether, which it calls again if that may succeed. The requests are checked anew: other servers
// may have written meanwhile.
func (s *Store) commitTwice(requests []*request) (answered bool) {
	answered, again := s.commitTogether(requests, false)
	if again {
		answered, _ = s.commitTogether(requests, true)
	}
	return answered
}

// commitTogether commits those requests that it can in one transaction and answers all of them. It returns false, with
// nothing written and no request answered, if the database refused the transaction and the reason may be one of several
// requests, or the batch's prune; or, with again, if this was not the last attempt and another one may succeed.
func (s *Store) commitTogether(requests []*request, last bool) (answered, again bool) {
	tx, err := s.begin()
	if err != nil {
		s.failure.set(err)
		s.queue.noteCommit(len(requests))
		answerAll(requests, fmt.Errorf("begin a commit: %w", err))
		return true, false
	}
	defer s.applying.Unlock()
	started, uncut := s.clock.Now(), s.uncut
	p := &batchBuilder{state: s.tree, revision: s.position.revision, floor: tx.floor(), sealer: s.sealer}
	added, refused := make([]*request, 0, len(requests)), []*request(nil)
	for _, r := range requests {
		if r.err = r.ctx.Err(); r.err == nil {
			p.unread = r.unread
			r.objects, r.err = p.add(r.writes, r.author, started)
		}
		if r.err != nil {
			refused = append(refused, r)
		} else {
			added = append(added, r)
		}
	}
	if len(added) > 0 {
		err = s.write(tx, p, started, last)
	} else {
		tx.rollback()
	}
	switch {
	case errors.Is(err, errAgain) && !last:
		return false, true
	case errors.Is(err, resources.ErrRefused) && (len(requests) > 1 || s.uncut != uncut):
		return false, false
	}
	s.queue.noteCommit(len(requests))
	answerAll(added, err)
	// An earlier request of the batch may be why a request was refused: the answer must not report a state that cannot
	// be read yet, or that will never exist.
	for _, r := range refused {
		r.refuse(err)
	}
	return true, false
}

func answerAll(requests []*request, err error) {
	for _, r := range requests {
		r.answer(err)
	}
}

// beginAttempts is how often begin tries at most. An attempt fails if the cache is behind, which then catches up.
const beginAttempts = 4

// begin starts the transaction of a batch, with the cache at the counter: a batch is checked against the state that it
// is committed to. It returns with applying locked, unless it fails. Errors: resources.ErrUnavailable.
func (s *Store) begin() (transaction, error) {
	if err := s.inPlace(); err != nil {
		return nil, unusable(err)
	}
	if err := s.resolve(); err != nil {
		return nil, err
	}
	for range beginAttempts {
		s.applying.Lock()
		seen := s.position
		s.applying.Unlock()
		tx, page, err := s.db.begin(seen.revision)
		if err != nil {
			return nil, err
		}
		s.applying.Lock()
		if page == nil {
			return tx, nil
		}
		complete := page.complete(seen.revision)
		if complete {
			if err = s.take(page, seen); err == nil {
				return tx, nil
			}
		}
		s.applying.Unlock()
		tx.rollback() // so that other servers do not wait for the catch-up
		if complete {
			err = s.peers.heal()
		} else {
			err = s.peers.catchUp(context.Background(), s.peers.db, 0)
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: others write faster than this server can follow", resources.ErrUnavailable)
}

// write makes the changes of a batchBuilder durable and visible. Errors: resources.ErrRefused,
// resources.ErrUnavailable, resources.ErrUnknownOutcome; errAgain, which is no failure of the store unless it is the
// last attempt. Called with applying.
func (s *Store) write(tx transaction, p *batchBuilder, now time.Time, last bool) error {
	b := &batch{at: now.UnixMilli(), revision: p.revision, floor: p.floor, changes: p.changes}
	for i := range b.changes {
		b.size += b.changes[i].size()
	}
	b.cut = s.cut(b.size)
	err := tx.commit(b)
	if errors.Is(err, resources.ErrUnknownOutcome) && s.peers == nil { // with peers, the next batch reads the log first
		err = s.ascertain(b, err)
	}
	if errors.Is(err, errAgain) && !last {
		return err
	}
	if err != nil && b.cut != nil {
		s.uncut = true
	}
	if errors.Is(err, resources.ErrRefused) {
		return fmt.Errorf("commit: %w", err) // the database works
	}
	s.failure.set(err)
	if err != nil {
		if !s.saidBefore(err) {
			s.logger.Error("commit failed", "writes", len(b.changes), "error", err)
		}
		return fmt.Errorf("commit: %w", err)
	}
	s.accept(b)
	s.metrics.committed(b, s.clock.Since(now))
	return nil
}

// accept takes a committed batch into the cache and tells the janitor what it means for history and lifetimes. Called
// with applying.
func (s *Store) accept(b *batch) {
	if b.cut != nil && b.cut.floor > 0 {
		s.raiseFloor(b.cut.floor)
		s.budget.evictTo(b.cut.floor)
		s.historyBytes.Store(b.cut.left)
	} else {
		s.historyBytes.Add(b.size)
	}
	events := make([]*resources.Event, len(b.changes))
	for i := range b.changes {
		events[i] = b.changes[i].event
	}
	s.apply(events)
	s.position = position{b.revision, b.at}
	s.janitor.noteCommit(b)
}
