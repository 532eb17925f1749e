package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// commitAll is the committer: it puts everything that waits into one transaction, again and again, until the queue is
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
			if err := s.db.dialect.trimLog(context.Background(), s.db.writer); err != nil {
				s.logger.Warn("the database's log could not be cut", "err", err)
			}
		}
		if task != nil {
			task()
		}
	}
}

// commitBatch commits what it can of some requests and answers every one of them.
func (s *Store) commitBatch(requests []*request) {
	if err := s.resolve(); err != nil {
		for _, r := range requests {
			r.answer(err)
		}
		return
	}
	started := s.clock.Now()
	p := &plan{state: s.tree, revision: s.revisions.current.Load()}
	planned := make([]*request, 0, len(requests))
	for _, r := range requests {
		if r.err = r.ctx.Err(); r.err == nil {
			r.objects, r.err = p.add(r.writes, started)
		}
		if r.err != nil {
			r.answer(nil)
			continue
		}
		planned = append(planned, r)
	}
	if len(planned) == 0 {
		return
	}
	err := s.write(p, started)
	for _, r := range planned {
		r.answer(err)
	}
}

// write makes a plan durable and visible. Errors: resources.ErrUnavailable, resources.ErrUnknownOutcome.
func (s *Store) write(p *plan, now time.Time) error {
	b := &batch{at: now.UnixMilli(), revision: p.revision, changes: p.changes}
	for i := range b.changes {
		b.size += b.changes[i].size()
	}
	err := s.db.commit(b)
	s.failure.set(err)
	if err != nil {
		s.logger.Error("commit failed", "writes", len(b.changes), "err", err)
		if errors.Is(err, resources.ErrUnknownOutcome) {
			s.doubtful = b
			if rerr := s.resolve(); rerr != nil {
				s.logger.Error("outcome of the commit is unknown", "err", rerr)
			}
		}
		return fmt.Errorf("commit %d writes: %w", len(b.changes), err)
	}
	s.accept(b)
	s.metrics.committed(b, s.clock.Since(now))
	return nil
}

// resolve finds out what became of a batch whose commit failed in an unknown way. If its changes are there, they have
// to become visible, or the cache would never see them; who asked for them was told to look.
func (s *Store) resolve() error {
	if s.doubtful == nil {
		return nil
	}
	revision, err := s.db.revision(context.Background())
	if err != nil {
		return err
	}
	if revision == s.doubtful.revision {
		s.accept(s.doubtful)
	}
	s.doubtful = nil
	return nil
}

// accept takes a committed batch into the cache and tells the janitor what it means for history and lifetimes.
func (s *Store) accept(b *batch) {
	s.historyBytes.Add(b.size)
	events := make([]*resources.Event, len(b.changes))
	for i := range b.changes {
		events[i] = b.changes[i].event
	}
	s.apply(events)
	s.janitor.noteCommit(b)
}
