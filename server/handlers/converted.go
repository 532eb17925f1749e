package handlers

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/codec"
)

// convertedAtOnce is how many objects are had converted before the first of them is looked at, where somebody else has to be asked
// (resources.Type.Converted).
const convertedAtOnce = 256

// object writes a stored object.
func (q *request) object(code int, f codec.Format, o *resources.Object) error {
	began := time.Now()
	r := codec.NewRenderer(q.served, f)
	if err := r.Convert(q.ctx, []*resources.Object{o}); err != nil {
		return err
	}
	document, end, err := r.Pieces(o)
	if err != nil {
		return err
	}
	q.audit.Made(began)
	q.auditAnswer(f, func(f codec.Format) ([]byte, error) { return codec.NewRenderer(q.served, f).Object(o) })
	return q.bytes(code, f, document, end)
}

// list writes a collection.
func (q *request) list(f codec.Format, objects []*resources.Object, m metav1.ListMeta) error {
	began := time.Now()
	r := codec.NewRenderer(q.served, f)
	if err := r.Convert(q.ctx, objects); err != nil {
		return err
	}
	list, err := r.List(objects, m)
	if err != nil {
		return err
	}
	q.audit.Made(began)
	q.auditList(q.served, f, objects, m)
	return q.stream(f, list)
}

// asStored shows objects that were deleted in the version in which they are stored, unless it is known how they look in that of the
// request: a deletion asks nobody for a conversion, neither before nor after it.
func (q *request) asStored(objects ...*resources.Object) error {
	if q.served.Converted == nil {
		return nil
	}
	for _, o := range objects {
		if q.served.IsIn(o, q.served.GroupVersion()) || o.Kept(q.served.ConvertedIn()) != nil {
			continue
		}
		stored, err := q.served.AsStored(o)
		if err != nil {
			return err
		}
		q.served = stored
		return nil
	}
	return nil
}

// ascend calls yield for the objects of a range in their order, until it returns false. Where their fields have to be asked of
// somebody else before it is known whether they match, it asks for many at once.
func (s *selection) ascend(ctx context.Context, snapshot resources.Snapshot, after string, yield func(*resources.Object) bool) {
	if s.convert == nil {
		snapshot.Ascend(s.namespace, after, yield)
		return
	}
	b := batch{yield: yield, convert: func(objects []*resources.Object) error { return s.convert(ctx, objects) }}
	snapshot.Ascend(s.namespace, after, b.add)
	b.end()
	if s.failed == nil {
		s.failed = b.err
	}
}

// batch has objects converted before they are given on.
type batch struct {
	convert func([]*resources.Object) error
	yield   func(*resources.Object) bool
	waiting []*resources.Object
	over    bool
	err     error
}

// add takes an object. It returns false when no more are wanted.
func (b *batch) add(o *resources.Object) bool {
	b.waiting = append(b.waiting, o)
	if len(b.waiting) == convertedAtOnce {
		b.end()
	}
	return !b.over
}

// end gives on what waits.
func (b *batch) end() {
	waiting := b.waiting
	b.waiting = nil
	if b.over || len(waiting) == 0 {
		return
	}
	if b.err = b.convert(waiting); b.err != nil {
		b.over = true
		return
	}
	for _, o := range waiting {
		if !b.yield(o) {
			b.over = true
			return
		}
	}
}
