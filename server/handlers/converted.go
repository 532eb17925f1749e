package handlers

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/codec"
)

// convertedAtOnce is how many objects are converted before the first of them is filtered, if conversion calls a webhook (resources.Type.Converted).
const convertedAtOnce = 256

// matchedAtOnce is how many objects are compared with selectors before the request's context is examined. A selector that fits into a URL may have
// 100,000 requirements.
const matchedAtOnce = 256

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
	if err := r.ConvertAll(q.ctx, objects); err != nil {
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

// asStored makes the response show deleted objects in their storage version, unless their form in the request's version is cached: a deletion never
// calls a conversion webhook.
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

// ascend calls yield for the objects of a range in order, until it returns false or ctx ends, which is then the selection's error. If a conversion
// webhook is needed to read their fields, ascend converts many objects per call.
func (s *selection) ascend(ctx context.Context, snapshot resources.Snapshot, after string, each func(*resources.Object) bool) {
	n := 0
	yield := func(o *resources.Object) bool {
		if n++; n%matchedAtOnce == 0 && ctx.Err() != nil {
			if s.failed == nil {
				s.failed = ctx.Err()
			}
			return false
		}
		return each(o)
	}
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

// batch converts objects before it yields them.
type batch struct {
	convert func([]*resources.Object) error
	yield   func(*resources.Object) bool
	waiting []*resources.Object
	over    bool
	err     error
}

// add takes an object. It returns false when yield wants no more.
func (b *batch) add(o *resources.Object) bool {
	b.waiting = append(b.waiting, o)
	if len(b.waiting) == convertedAtOnce {
		b.end()
	}
	return !b.over
}

// end converts and yields the waiting objects.
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
