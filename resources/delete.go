package resources

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/utils/ptr"
)

// DeleteRequest is the deletion of one object.
type DeleteRequest struct {
	Type *Type
	Name string
	// Decode, when set, decodes the body into Options.
	Decode func() error
	// Options are the options of the request, with its preconditions. Nil: none. The strategy may change them, as kube-apiserver's do (a default
	// grace period is filled in).
	Options *metav1.DeleteOptions
	// Precondition is the requester's own check, besides the preconditions of Options: it fails when the object must no longer be deleted. It is
	// called for each attempt, before admission. May be nil.
	Precondition func(ctx context.Context, obj runtime.Object) error

	// sent are the options as admission sees them. single: it is not a part of the deletion of a collection. For a single deletion admission sees the
	// grace period that the strategy has filled in, and a type with Terminate checks the preconditions itself, as in kube-apiserver.
	sent   *metav1.DeleteOptions
	single bool
}

// Deleted is the result of a deletion.
type Deleted struct {
	// Object is the last state of the object that was removed or is now being deleted.
	Object *Object
	// UID is the UID of the object.
	UID types.UID
	// Unread: the object could not be read. There is neither Object nor UID.
	Unread bool
	// Gone: the object is removed. Otherwise finalizers or a grace period keep it.
	Gone bool
	// Unchanged: an earlier request started the deletion, and this one changed nothing.
	Unchanged bool

	marked runtime.Object // the marked object, which the removal follows
}

// Delete deletes an object in the two phases of "Resource deletion" of the API concepts page: an object with finalizers or a grace period is marked
// and stays, any other is removed. See Pipeline.
//
// Errors are API status errors, or those of the Store that the caller maps.
func (p *Pipeline) Delete(ctx context.Context, r *DeleteRequest) (Deleted, error) {
	ctx, err := p.begin(ctx)
	if err != nil {
		return Deleted{}, err
	}
	d, err := p.delete(ctx, r)
	p.written(ctx, AuditEvent{Type: r.Type, Name: r.Name, Object: d.Object, UID: d.UID, Gone: d.Gone,
		DryRun: r.sent != nil && dryrun.IsDryRun(r.sent.DryRun), Err: err})
	return d, err
}

func (p *Pipeline) delete(ctx context.Context, r *DeleteRequest) (Deleted, error) {
	if err := p.authorize(ctx); err != nil {
		return Deleted{}, err
	}
	if r.Decode != nil {
		if err := r.Decode(); err != nil {
			return Deleted{}, err
		}
	}
	options := ptr.Deref(r.Options, metav1.DeleteOptions{}) // they may be shared with other requests
	options.TypeMeta = optionsKind("DeleteOptions")         // webhooks see it; the server's own controllers do not set it
	r.Options = &options
	r.sent, r.single = r.Options, true
	p.sent(ctx, r.Type, r.Options)
	key, err := r.Type.RequestKey(ctx, r.Name)
	if err != nil {
		return Deleted{}, err
	}
	if ptr.Deref(r.Options.IgnoreStoreReadErrorWithClusterBreakingPotential, false) {
		return p.deleteUnread(ctx, r, key)
	}
	if r.Type.BeforeDelete != nil {
		if err := r.Type.BeforeDelete(ctx, r.Name, r.Options); err != nil {
			return Deleted{}, err
		}
	}
	return p.deleteTwice(ctx, r, key)
}

func (r *DeleteRequest) admitted(old runtime.Object) admitted {
	return admitted{t: r.Type, old: old, op: admission.Delete, options: r.sent, dryRun: dryrun.IsDryRun(r.sent.DryRun)}
}

// deleteTwice marks and removes an object where watchers must see both.
func (p *Pipeline) deleteTwice(ctx context.Context, r *DeleteRequest, key Key) (Deleted, error) {
	d, again, err := p.deleteOnce(ctx, r, key)
	if err != nil || !again {
		return d, err
	}
	// The type has a grace period and the request asks for an immediate deletion: watchers see the object marked first, then removed, as with
	// kube-apiserver. If another request removes it in between, the result is the same. Two transactions are needed only where the removal is
	// refused, which leaves the object marked, or has more writes.
	if rv := r.preconditionRevision(); rv != nil {
		*rv = FormatRevision(d.Object.Revision)
	}
	last, _, err := p.deleteOnce(ctx, r, key)
	if apierrors.IsNotFound(err) {
		d.Gone = true
		return d, nil
	}
	return last, err
}

// deleteOnce marks or removes the object. again is set when it was marked and a removal has to follow at once.
func (p *Pipeline) deleteOnce(ctx context.Context, r *DeleteRequest, key Key) (d Deleted, again bool, err error) {
	options := r.Options
	ctx, shares := p.sharing(ctx, r.Type, false)
	var writes []Write
	stored, err := GuaranteedUpdate(ctx, p.store, key, func(live *Object) (_ []Write, err error) {
		shares.end(nil, nil, errTaken) // another write won the last round
		d, again = Deleted{}, false
		if live == nil {
			return nil, apierrors.NewNotFound(r.Type.RequestResource(ctx), r.Name)
		}
		r.Options = options.DeepCopy() // strategies write into the options; a second round starts anew
		w, err := p.prepareDelete(ctx, r, live, &d, &again)
		if err != nil || w == nil {
			return nil, err
		}
		if dryrun.IsDryRun(r.Options.DryRun) {
			d.Object, d.Gone, again = live, d.Gone || again, false
			if w.Op == Update {
				d.Object = NewObject(key, w.Draft, live.Revision)
			}
			return nil, nil
		}
		writes, err = r.Type.withFreed(ctx, p.store, *w, live)
		if err == nil && again && p.removes(ctx, r, d.marked) {
			again, d.Gone = false, true
			writes = append(writes, Write{Op: Delete, Key: key, From: FromEarlier})
		}
		return writes, err
	})
	shares.end(stored, writes, err)
	if err != nil {
		return Deleted{}, false, err
	}
	switch {
	case d.Object != nil:
	case d.Gone && d.marked != nil:
		d.Object = stored.At(stored.Revision + 1) // the removal follows the mark
	default:
		d.Object = stored
	}
	return d, again, nil
}

// removes reports whether one transaction can mark the object and remove it: the checks of the removal see the object as marked.
func (p *Pipeline) removes(ctx context.Context, r *DeleteRequest, marked runtime.Object) bool {
	if r.Type.Allocate != nil || r.Type.Terminate != nil || r.Precondition != nil && r.Precondition(ctx, marked) != nil {
		return false
	}
	return p.allow(ctx, r.admitted(marked)) == nil
}

// withFreed adds to the write of a deletion the writes that free the allocations of the object.
func (t *Type) withFreed(ctx context.Context, s Reader, w Write, live *Object) ([]Write, error) {
	if t.Allocate == nil || w.Op != Delete {
		return t.required([]Write{w}), nil
	}
	old, err := t.decodeKept(live)
	if err != nil {
		return nil, err
	}
	freed, err := t.Allocate(ctx, s, nil, old)
	if err != nil {
		return nil, err
	}
	return append([]Write{w}, freed...), nil
}

// prepareDelete computes the write of a deletion of the live object: a removal, or an update that marks it as being deleted. nil when it is marked
// already.
func (p *Pipeline) prepareDelete(ctx context.Context, r *DeleteRequest, live *Object, d *Deleted, again *bool) (*Write, error) {
	t := r.Type
	obj, err := t.decodeKept(live)
	if err != nil {
		return nil, err
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	d.UID = m.GetUID()
	if r.terminates() {
		if err := r.checkTerminated(ctx, m); err != nil {
			return nil, err
		}
		r.showUID(m.GetUID())
	}
	if r.Precondition != nil {
		if err := r.Precondition(ctx, obj); err != nil {
			return nil, err
		}
	}
	if pending, err := r.pending(ctx, obj, m); err != nil {
		return nil, err
	} else if pending {
		d.Unchanged, d.Object = true, live
		return nil, nil
	}
	marked := m.GetDeletionTimestamp() != nil
	if marked && t.Terminate != nil && t.Terminate(obj, metav1.Now()) {
		return r.mark(ctx, obj, live, d) // the object stays, so admission is not called
	}
	if err := p.allow(ctx, r.admitted(obj)); err != nil {
		return nil, err
	}
	if !marked && t.Terminate != nil && t.Terminate(obj, metav1.Now()) {
		if !t.TerminatesPlainly {
			t.setDeletionFinalizers(ctx, m, r.Options)
		}
		return r.mark(ctx, obj, live, d)
	}
	graceful, _, err := rest.BeforeDelete(t.DeleteStrategy, ctx, obj, r.Options)
	if err != nil {
		return nil, err
	}
	t.setDeletionFinalizers(ctx, m, r.Options)
	kept := len(m.GetFinalizers()) > 0
	if !graceful && !kept {
		d.Gone = true
		return &Write{Op: Delete, Key: live.Key, From: live.Revision}, nil
	}
	if !graceful {
		markDeleting(m, time.Now())
	}
	if *again = graceful && !kept && *r.Options.GracePeriodSeconds == 0; *again {
		d.marked = obj
	}
	return r.mark(ctx, obj, live, d)
}

// mark is the write that leaves an object marked as being deleted; nil when it is marked already. It ends the lifetime of the object: what finalizers
// keep stays until they are gone, or an update gives it a new lifetime.
func (r *DeleteRequest) mark(ctx context.Context, obj runtime.Object, live *Object, d *Deleted) (*Write, error) {
	t := r.Type
	draft, err := t.keptDraft(ctx, obj)
	if err != nil {
		return nil, err
	}
	if draft.sameState(live) {
		d.Object = live
		return nil, nil
	}
	return &Write{Op: Update, Key: live.Key, From: live.Revision, Draft: draft}, nil
}

// markDeleting sets the deletionTimestamp of an object that finalizers keep; its generation rises once.
func markDeleting(m metav1.Object, now time.Time) {
	if m.GetDeletionTimestamp() == nil && m.GetGeneration() > 0 {
		m.SetGeneration(m.GetGeneration() + 1)
	}
	if at := m.GetDeletionTimestamp(); at == nil || at.After(now) {
		t := metav1.NewTime(now)
		m.SetDeletionTimestamp(&t)
	}
	var zero int64
	m.SetDeletionGracePeriodSeconds(&zero)
}

// setDeletionFinalizers puts the garbage collector's finalizers on the object, or takes them off, as the options, the
// finalizers already there and the type's policy say, in this order.
func (t *Type) setDeletionFinalizers(ctx context.Context, m metav1.Object, o *metav1.DeleteOptions) {
	policy := t.propagation(ctx, m, o)
	var kept []string
	for _, f := range m.GetFinalizers() {
		if f != metav1.FinalizerOrphanDependents && f != metav1.FinalizerDeleteDependents {
			kept = append(kept, f)
		}
	}
	switch policy {
	case metav1.DeletePropagationOrphan:
		kept = append(kept, metav1.FinalizerOrphanDependents)
	case metav1.DeletePropagationForeground:
		kept = append(kept, metav1.FinalizerDeleteDependents)
	}
	if now := m.GetFinalizers(); !slices.Equal(kept, now) && !sets.New(kept...).Equal(sets.New(now...)) { // there may be 100,000
		m.SetFinalizers(kept)
	}
}

func (t *Type) propagation(ctx context.Context, m metav1.Object, o *metav1.DeleteOptions) metav1.DeletionPropagation {
	fallback := metav1.DeletePropagationBackground
	if gc, ok := t.DeleteStrategy.(rest.GarbageCollectionDeleteStrategy); ok {
		switch gc.DefaultGarbageCollectionPolicy(ctx) {
		case rest.Unsupported:
			return metav1.DeletePropagationBackground
		case rest.OrphanDependents:
			fallback = metav1.DeletePropagationOrphan
		}
	}
	if orphan := o.OrphanDependents; orphan != nil { //nolint:staticcheck // deprecated, and still served
		switch {
		case *orphan:
			return metav1.DeletePropagationOrphan
		case t.Terminate != nil:
			return metav1.DeletePropagationForeground // for a namespace, orphanDependents=false means foreground
		}
		return metav1.DeletePropagationBackground
	}
	if o.PropagationPolicy != nil {
		return *o.PropagationPolicy
	}
	for _, f := range m.GetFinalizers() {
		switch f {
		case metav1.FinalizerOrphanDependents:
			return metav1.DeletePropagationOrphan
		case metav1.FinalizerDeleteDependents:
			return metav1.DeletePropagationForeground
		}
	}
	return fallback
}

// DeletedStatus is the answer to a delete for a type whose deletes do not return the object.
func (t *Type) DeletedStatus(ctx context.Context, name string, uid types.UID) runtime.Object {
	r := t.RequestResource(ctx)
	return &metav1.Status{Status: metav1.StatusSuccess, Details: &metav1.StatusDetails{
		Name: name, Group: r.Group, Kind: r.Resource, UID: uid,
	}}
}
