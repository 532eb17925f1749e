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
	r.size = s.measure(r)
	if !s.queue.put(r) {
		return nil, resources.ErrClosed
	}
	select {
	case <-r.done:
		return r.objects, r.err
	case <-ctx.Done():
		s.queue.withdraw(r)
		return nil, ctx.Err()
	}
}

// measure returns about how many bytes of objects a request writes into the log, for the bound of a batch: its drafts,
// the objects that it deletes, and those that its updates store as the object before. Until the request is committed,
// other requests may change these objects, which makes the bound a little less exact.
func (s *Store) measure(r *request) (bytes int) {
	for i := range r.writes {
		w := &r.writes[i]
		bytes += len(w.Draft.Data) + len(r.unread[w.Key].data)
		if w.Op == resources.Delete || w.Op == resources.Update && w.From <= s.floor.Load() {
			if o, ok := s.tree(w.Key.Resource).objects.Get(w.Key.Path()); ok {
				bytes += o.Length()
			}
		}
	}
	return bytes
}

// mostSent is the most that kube-apiserver's client of etcd sends.
const mostSent = 2 << 20

// tooLargeToSend is ErrTooLarge for an object that kube-apiserver would not even send to etcd.
type tooLargeToSend struct{ size int }

// Error returns the text of etcd's client, which clients of kube-apiserver know.
func (e *tooLargeToSend) Error() string {
	return fmt.Sprintf("rpc error: code = ResourceExhausted desc = trying to send message larger than max (%d vs. %d)", e.size, mostSent)
}

// Is tells that the error is ErrTooLarge.
func (*tooLargeToSend) Is(target error) bool { return target == resources.ErrTooLarge }

// check refuses what a database would refuse, which would fail the transaction of the whole batch. Only a Create has
// its key checked: an object whose key an earlier release accepted unchecked can still be changed and deleted.
func (s *Store) check(w *resources.Write) error {
	if most := s.options.MaxObjectBytes; most > 0 && w.Op != resources.Delete && w.Draft.Size() > most {
		if size := w.Draft.Size(); size > mostSent && most <= mostSent {
			return &tooLargeToSend{size}
		}
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

// readUnread reads the stored rows of objects that are to be deleted although they cannot be decrypted or decoded.
// Errors: resources.ErrNotFound, resources.ErrUnavailable, the context's.
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

// checkExpects refuses a request that has Expects and no change, and an Expect of an object that the request also
// writes. So every request in the queue has a change to commit, and an Expect that holds for one change of its request
// holds for all.
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

// checkEarlier refuses a write that claims to be computed from an earlier write of its request if no earlier write
// creates or updates the object. If an earlier write deletes the object, add answers with ErrNotFound.
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
	size   int                      // see Store.measure
	unread map[resources.Key]sealed // the stored rows of unreadable objects to be deleted

	done    chan struct{}
	objects []*resources.Object
	err     error
}

// refuse answers a request that was not added, after the other requests of its batch were written with result err.
func (r *request) refuse(err error) {
	if err != nil {
		r.err = fmt.Errorf("%w: what was in the way may not have been written: %s", resources.ErrUnavailable, r.err.Error())
	}
	close(r.done)
}

// answer answers a request that was added to the batch, or whose batch could not begin.
func (r *request) answer(err error) {
	if r.err == nil && err != nil {
		r.objects, r.err = nil, err
	}
	close(r.done)
}
