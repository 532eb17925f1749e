package resources

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"
)

// shares are the objects that one attempt at a write allocates and frees (Type.Allocate). kube-apiserver writes them through its loopback
// client, so each is a request of the server's own, which is admitted and audited. Their writes are committed with the write that they are
// part of, and have its outcome.
type shares struct {
	p   *Pipeline
	dry bool
	// open are the requests that were admitted and are not audited yet.
	open []*share
}

// share is one such request.
type share struct {
	ctx context.Context
	t   *Type
	key Key
	// live is the object of a deletion, and deleted its result.
	live    *Object
	deleted Deleted
}

type sharesKey struct{}

// sharing returns the context for Type.Allocate and the strategies of its type, and the shares; nil for a type that allocates nothing. dry: nothing will be stored.
func (p *Pipeline) sharing(ctx context.Context, t *Type, dry bool) (context.Context, *shares) {
	if t.Allocate == nil {
		return ctx, nil
	}
	s := &shares{p: p, dry: dry}
	return context.WithValue(ctx, sharesKey{}, s), s
}

// sharesOf returns the shares of the context of Type.Allocate.
func sharesOf(ctx context.Context) *shares {
	s, _ := ctx.Value(sharesKey{}).(*shares)
	return s
}

// InDryRun tells Type.Allocate, and the strategies of a type that has it, whether nothing will be stored.
func InDryRun(ctx context.Context) bool {
	s := sharesOf(ctx)
	return s != nil && s.dry
}

// CreateShare returns the writes that create an object (hub form, which it changes) for Type.Allocate, whose context it takes.
//
// Errors are API status errors, or those of the Store.
func CreateShare(ctx context.Context, t *Type, obj runtime.Object) (writes []Write, err error) {
	s, o := sharesOf(ctx), &share{t: t, key: t.KeyOf("", nameOf(obj))}
	err = s.request(ctx, o, "create", func() error {
		s.p.sent(o.ctx, t, obj)
		a := admitted{t: t, obj: obj, name: o.key.Name, op: admission.Create, options: plainCreate}
		if err := s.p.admit(o.ctx, a); err != nil {
			return err
		}
		writes, err = prepareNew(o.ctx, s.p.store, t, obj, func() error { return s.p.validate(o.ctx, a) })
		return err
	})
	return writes, err
}

// DeleteShare returns the write that deletes the live object for Type.Allocate, whose context it takes. nil: it is being deleted already.
//
// Errors are API status errors.
func DeleteShare(ctx context.Context, t *Type, live *Object) (w *Write, err error) {
	s, o := sharesOf(ctx), &share{t: t, key: live.Key, live: live}
	err = s.request(ctx, o, "delete", func() error {
		r := &DeleteRequest{Type: t, Name: live.Name, Options: &metav1.DeleteOptions{TypeMeta: optionsKind("DeleteOptions")}, single: true}
		r.sent = r.Options
		s.p.sent(o.ctx, t, r.Options)
		w, err = s.p.prepareDelete(o.ctx, r, live, &o.deleted, new(bool))
		return err
	})
	return w, err
}

// request lets prepare compute the write of a share in the context of its request, and keeps the request until the outcome of the write is
// known. One that is refused is audited at once. The client does not get its warnings.
func (s *shares) request(ctx context.Context, o *share, verb string, prepare func() error) (err error) {
	o.ctx, err = s.p.begin(warning.WithWarningRecorder(APIServer.Request(ctx, verb, o.t, o.key), unwarned{}))
	if err != nil {
		return err
	}
	if err = s.p.authorize(o.ctx); err == nil {
		err = prepare()
	}
	if err != nil {
		s.p.written(o.ctx, AuditEvent{Type: o.t, Name: o.key.Name, Err: err})
		return err
	}
	s.open = append(s.open, o)
	return nil
}

// end audits the requests. writes were committed, the first of them gave first; or err is why nothing was.
func (s *shares) end(first *Object, writes []Write, err error) {
	if s == nil || s.p.audit == nil {
		return
	}
	for _, o := range s.open {
		e := AuditEvent{Type: o.t, Name: o.key.Name, Err: err}
		if errors.Is(err, errTaken) {
			e.Err = apierrors.NewConflict(o.t.GroupResource, o.key.Name, err)
		}
		if err == nil {
			e.Object, e.UID, e.Gone, e.Created = o.live, o.deleted.UID, o.deleted.Gone, o.live == nil
			for i := range writes {
				if w := &writes[i]; w.Key == o.key && w.Op != Delete {
					e.Object = NewObject(o.key, w.Draft, first.Revision+int64(i)) // revisions of a transaction are consecutive
				}
			}
		}
		s.p.written(o.ctx, e)
	}
	s.open = nil
}
