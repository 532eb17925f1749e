package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/rowlock/rowlock/resources"
)

// Commit applies writes in one transaction; see resources.Writer.
func (s *Store) Commit(ctx context.Context, writes ...resources.Write) ([]*resources.Object, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(writes) == 0 {
		return nil, nil
	}
	r := &request{ctx: ctx, writes: writes, author: encodeAuthor(resources.AuthorOf(ctx)), done: make(chan struct{})}
	for i := range writes {
		if err := s.check(&writes[i]); err != nil {
			return nil, err
		}
		r.size += len(writes[i].Draft.Data)
	}
	if err := checkExpects(writes); err != nil {
		return nil, err
	}
	if err := checkEarlier(writes); err != nil {
		return nil, err
	}
	if err := s.readUnread(ctx, r); err != nil {
		return nil, err
	}
	if !s.queue.put(r) {
		return nil, resources.ErrClosed
	}
	select {
	case <-r.done:
		return r.objects, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// check refuses what a database would, which would cost all that are in the batch a transaction. A key that exists was
// taken once, by a release that did not look: its object can still be changed and deleted.
func (s *Store) check(w *resources.Write) error {
	if most := s.options.MaxObjectBytes; most > 0 && w.Op != resources.Delete && len(w.Draft.Data) > most {
		return resources.ErrTooLarge
	}
	if data := w.Draft.Data; !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return fmt.Errorf("%w: the data of %s is not text in UTF-8", resources.ErrRefused, w.Key)
	}
	if w.Op != resources.Create {
		return nil
	}
	if errs := w.Key.Storable(); len(errs) > 0 {
		return fmt.Errorf("%w: %w", resources.ErrRefused, errs.ToAggregate())
	}
	return nil
}

// readUnread reads what the database has of objects that are to be deleted though nobody can read them. Errors: resources.ErrNotFound,
// resources.ErrUnavailable, the context's.
func (s *Store) readUnread(ctx context.Context, r *request) error {
	for i := range r.writes {
		w := &r.writes[i]
		if w.Op != resources.Delete || w.Unread == nil {
			continue
		}
		row, err := s.db.row(ctx, w.Key, w.From)
		if err != nil {
			return err
		}
		if r.unread == nil {
			r.unread = map[resources.Key]sealed{}
		}
		r.unread[w.Key] = row
	}
	return nil
}

// checkExpects refuses Expects beside which nothing is written, and those of what is written: every request in the queue has
// a change to commit, and every Expect holds for all changes of its request if it does for one.
func checkExpects(writes []resources.Write) error {
	var expected map[resources.Key]bool
	changes := 0
	for i := range writes {
		if writes[i].Op != resources.Expect {
			changes++
			continue
		}
		if expected == nil {
			expected = map[resources.Key]bool{}
		}
		expected[writes[i].Key] = true
	}
	if expected == nil {
		return nil
	}
	if changes == 0 {
		return fmt.Errorf("%w: %s is expected and nothing written", resources.ErrRefused, writes[0].Key)
	}
	for i := range writes {
		if w := &writes[i]; w.Op != resources.Expect && expected[w.Key] {
			return fmt.Errorf("%w: %s is both expected and written", resources.ErrRefused, w.Key)
		}
	}
	return nil
}

// checkEarlier refuses writes that say to be computed from what no earlier write makes. An object that an earlier one deletes is not found.
func checkEarlier(writes []resources.Write) error {
	for i := range writes {
		if writes[i].From != resources.FromEarlier {
			continue
		}
		if !slices.ContainsFunc(writes[:i], func(w resources.Write) bool {
			return w.Key == writes[i].Key && (w.Op == resources.Create || w.Op == resources.Update)
		}) {
			return fmt.Errorf("%w: %s is written from an earlier write that there is not", resources.ErrRefused, writes[i].Key)
		}
	}
	return nil
}

// request is one Commit on its way through the committer. The committer owns it until done is closed.
type request struct {
	ctx    context.Context
	writes []resources.Write
	author sql.NullString
	size   int                      // bytes of the drafts
	unread map[resources.Key]sealed // what the database has of those that are deleted and cannot be read

	done    chan struct{}
	objects []*resources.Object
	err     error
}

// refuse answers a request that was not added, after the batch that it was in has been written with err.
func (r *request) refuse(err error) {
	if err != nil {
		r.err = fmt.Errorf("%w: what was in the way may not have been written: %s", resources.ErrUnavailable, r.err.Error())
	}
	close(r.done)
}

// answer answers a request that was added, or could not be.
func (r *request) answer(err error) {
	if r.err == nil && err != nil {
		r.objects, r.err = nil, err
	}
	close(r.done)
}
