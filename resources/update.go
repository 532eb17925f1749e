package resources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/rowlock/rowlock/resources/fieldmanager"
)

// optimisticLockMessage is kube-apiserver's text for an update that is out of date, which some clients match.
const optimisticLockMessage = "the object has been modified; please apply your changes to the latest version and try again"

// UpdateRequest is an update or a patch of one object, or of a subresource's projection of it.
type UpdateRequest struct {
	Type *Type
	Name string
	// Decode, when set, decodes the body before anything is looked up: it may set Change, UID, Options and DryRun.
	Decode func() error
	// Sent, when set, identifies all input of Change besides the existing object, for types that remember updates that changed nothing
	// (Type.Repeats).
	Sent func() Digest
	// Change makes the new object (hub form) from the existing one, which it must not change except by Lean.Restore. If there is no object,
	// existing is an empty object and live is nil. It may be called several times. At a subresource with a Projection, both have the projected
	// kind.
	Change func(ctx context.Context, existing runtime.Object, live *Object) (runtime.Object, error)
	// Existing, when set, reads the live object for Change, for types with parts that stay text (Type.Lean). Nil: it is read whole.
	Existing func(live *Object) runtime.Object
	// UID, when set, must be that of the existing object.
	UID types.UID
	// Strategy replaces the strategy of the request's path, in an operation.
	Strategy rest.RESTUpdateStrategy
	// ForceCreate creates a missing object even where the strategy does not (server-side apply).
	ForceCreate bool
	// Owned: the object is useless without its managedFields (server-side apply). Any other object that is too large with them is stored without
	// them, as by kube-apiserver.
	Owned bool
	// Metadata: Change touches metadata alone. An object without a Go type is changed in the version that it is stored in, so that no conversion
	// webhook is needed, and the rest of it is not validated.
	Metadata bool
	// MetadataElsewhere is Metadata for objects that a webhook would have to convert to the version of the type or to the present storage
	// version. Any other object is changed by the rules of the type.
	MetadataElsewhere bool
	// DeletingElsewhere is MetadataElsewhere for objects that are being deleted alone.
	DeletingElsewhere bool
	// Options are the options of the request, for admission. Nil: none.
	Options *metav1.UpdateOptions
	// DryRun: the update does everything except the storing.
	DryRun bool
	// Accepted, when set, remembers over several attempts at the request that validating admission has accepted the creation of the object; see
	// IsValidatedAgain.
	Accepted *bool
	// Removed is set by Update if it removed the object, which was being deleted and has nothing left to wait for. The object that Update returns
	// has the revision that it had before.
	Removed bool
}

// Update changes an object and retries until the change takes effect or fails; see Pipeline. created reports whether it made a new object. An
// update that changes nothing writes nothing and returns the present object. The RequestInfo says whether the update is of the object itself or
// of a subresource.
//
// Errors are API status errors, or those of the Store that the caller maps.
func (p *Pipeline) Update(ctx context.Context, r *UpdateRequest) (stored *Object, created bool, err error) {
	if ctx, err = p.begin(ctx); err != nil {
		return nil, false, err
	}
	stored, created, err = p.update(ctx, r)
	p.written(ctx, AuditEvent{Type: r.Type, Name: r.Name, Object: stored, Created: created, DryRun: r.DryRun, Err: err})
	return stored, created, err
}

func (p *Pipeline) update(ctx context.Context, r *UpdateRequest) (stored *Object, created bool, err error) {
	u, err := p.beginUpdate(ctx, r)
	if err != nil {
		return nil, false, err
	}
	key, err := r.Type.RequestKey(ctx, r.Name)
	if err != nil {
		return nil, false, err
	}
	if stored, created, err = u.commit(ctx, key); errors.Is(err, ErrTooLarge) && r.Decode != nil && !r.Owned {
		u.disowned = true
		stored, created, err = u.commit(ctx, key)
	}
	return stored, created, err
}

// commit computes the update and writes it, and repeats both while other writers come in between.
func (u update) commit(ctx context.Context, key Key) (stored *Object, created bool, err error) {
	r := u.UpdateRequest
	// The closure's last call decided the update that was committed.
	var before, dry, removed *Object
	var writes []Write
	ctx, shares := u.p.sharing(ctx, r.Type, r.DryRun)
	stored, err = GuaranteedUpdate(ctx, u.p.store, key, func(live *Object) (_ []Write, err error) {
		shares.end(nil, nil, errTaken) // another write won the last round
		before, dry, removed, created = live, nil, nil, false
		writes, err = u.prepare(ctx, live)
		if err != nil || len(writes) == 0 {
			return nil, err
		}
		w := writes[0]
		created = w.Op == Create
		if w.Op == Delete {
			removed = NewObject(key, w.Draft, live.Revision)
		}
		if r.DryRun {
			dry = dryResult(key, w, live)
			return nil, nil
		}
		return writes, nil
	})
	shares.end(stored, writes, err)
	if errors.Is(err, ErrExists) {
		return nil, false, r.errRenamed()
	}
	if err != nil {
		return nil, false, foundBy(r, err)
	}
	switch {
	case removed != nil:
		r.Removed = !r.DryRun
		return removed.Whole(), false, nil
	case dry != nil:
		return dry, created, nil
	}
	u.sub.written(before, stored)
	return stored, created, nil
}

// errRenamed is the error of a create by PUT or apply whose object admission gave another name. kube-apiserver stores it under the requested
// name, and returns this error for the next request.
func (r *UpdateRequest) errRenamed() error {
	return apierrors.NewInvalid(r.Type.StorageKind().GroupKind(), r.Name,
		field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), r.Name, "field is immutable")})
}

// update is an UpdateRequest in progress.
type update struct {
	*UpdateRequest
	p   *Pipeline
	sub *Subresource // nil for the object itself
	// whole: the object itself is written, by its own strategy. Only such a write allocates from a supply.
	whole bool
	// disowned: the object is stored without managedFields.
	disowned bool
	// accepted is UpdateRequest.Accepted, or its own.
	accepted *bool
}

// change is the new object, before admission.
func (u update) change(ctx context.Context, existing runtime.Object, live *Object) (runtime.Object, error) {
	obj, err := u.Change(ctx, existing, live)
	if err != nil {
		return obj, err
	}
	u.p.sent(ctx, u.Type, obj)
	if u.disowned {
		disown(obj)
	}
	return obj, nil
}

// beginUpdate does the steps before anything is looked up.
func (p *Pipeline) beginUpdate(ctx context.Context, r *UpdateRequest) (update, error) {
	u := update{UpdateRequest: r, p: p, accepted: cmp.Or(r.Accepted, new(bool))}
	if err := p.authorize(ctx); err != nil {
		return u, err
	}
	if r.Decode != nil {
		if err := r.Decode(); err != nil {
			return u, err
		}
	}
	if r.Options == nil {
		r.Options = plainUpdate
	}
	if r.Strategy != nil {
		return u, nil // the path does not name this object
	}
	r.Strategy = r.Type.UpdateStrategy
	if r.Metadata && r.Type.Untyped {
		r.Strategy = metadataStrategy{r.Strategy}
	}
	if info, ok := genericapirequest.RequestInfoFrom(ctx); ok && info.Subresource != "" {
		if u.sub = r.Type.Subresources[info.Subresource]; u.sub == nil {
			return u, fmt.Errorf("%s has no subresource %s", r.Type.GroupResource, info.Subresource)
		}
		r.Strategy = u.sub.UpdateStrategy
	}
	u.whole = u.sub == nil
	return u, nil
}

// prepare computes the writes that the request makes of the live object, its own first; none when nothing changes.
func (u update) prepare(ctx context.Context, live *Object) ([]Write, error) {
	if live == nil {
		return u.prepareCreate(ctx)
	}
	t, u := u.Type, u.of(live)
	again := u.repeat(ctx, live)
	if again.known(t) && u.rewrites(ctx, live) {
		again = nil
	}
	ctx = again.listen(ctx)
	existing, obj, err := u.changed(ctx, live, again)
	if err != nil || obj == nil {
		return nil, err
	}
	if u.Metadata && u.Type.Untyped {
		if u, obj, existing, err = u.whenMore(ctx, obj, existing, live); err != nil {
			return nil, err
		}
	}
	if err := u.checkRevision(ctx, obj, live); err != nil {
		return nil, err
	}
	var allocated []Write
	if t.Allocate != nil && u.whole {
		if allocated, err = t.Allocate(ctx, u.p.store, obj, existing); err != nil {
			return nil, err
		}
	}
	if t.Prepare != nil {
		t.Prepare(obj)
	}
	if err := beforeUpdate(ctx, u.Strategy, obj, existing); err != nil {
		return nil, err
	}
	// An apply that repeats the same fields changes only the time of its manager: that is not a change, for validating admission either.
	fieldmanager.KeepTimestamps(existing, obj)
	if err := u.validate(ctx, obj, existing); err != nil {
		return nil, err
	}
	w, err := u.write(ctx, obj, existing, live)
	if err != nil {
		return nil, err
	}
	if w == nil {
		again.unchanged(t, obj, existing)
		return nil, nil
	}
	if w.Op == Delete {
		return t.withFreed(ctx, u.p.store, *w, live)
	}
	return t.required(append([]Write{*w}, allocated...)), nil
}

func (u update) admitted(obj, old runtime.Object) admitted {
	return admitted{t: u.Type, obj: obj, old: old, op: admission.Update, options: u.Options, dryRun: u.DryRun}
}

// validate runs validating admission on the objects, or on their projections at this path.
func (u update) validate(ctx context.Context, obj, existing runtime.Object) (err error) {
	if projection := u.projection(); projection != nil && u.p.validating != nil {
		show := projection.FromParent
		if c, ok := projection.(Changeable); ok {
			show = c.ForAdmission
		}
		if obj, err = show(obj); err != nil {
			return err
		}
		if existing, err = show(existing); err != nil {
			return err
		}
	}
	return u.p.validate(ctx, u.admitted(obj, existing))
}

// write encodes the new state; nil when it equals the old one, unless a dry run has to show more.
func (u update) write(ctx context.Context, obj, existing runtime.Object, live *Object) (*Write, error) {
	t := u.Type
	w := Write{Op: Update, Key: live.Key, From: live.Revision, TTL: t.ttl(obj)}
	if t.deletesOnUpdate(ctx, obj, existing) {
		w.Op = Delete
	}
	var err error
	if w.Draft, err = u.encode(ctx, obj); err != nil {
		return nil, err
	}
	if w.Op == Update && w.Draft.sameState(live) && (!u.DryRun || w.Draft.selfLink == "") && !u.rewrites(ctx, live) {
		return nil, nil
	}
	return &w, nil
}

// rewrites reports whether an update is written though it changes nothing, as by kube-apiserver: the stored form of the object is out of date.
func (u update) rewrites(ctx context.Context, live *Object) bool {
	s, ok := u.p.store.(Restorer)
	return ok && !u.DryRun && s.Stale(ctx, live)
}

// deletesOnUpdate: the update that removes the last finalizer of an object being deleted removes the object, once its
// grace period is over ("Resource deletion" of the API concepts page).
func (t *Type) deletesOnUpdate(ctx context.Context, obj, existing runtime.Object) bool {
	now, err := meta.Accessor(obj)
	if err != nil {
		return false
	}
	old, err := meta.Accessor(existing)
	if err != nil || len(now.GetFinalizers()) > 0 || old.GetDeletionTimestamp() == nil {
		return false
	}
	if grace := old.GetDeletionGracePeriodSeconds(); grace != nil && *grace != 0 {
		return false
	}
	return t.ShouldDeleteDuringUpdate == nil || t.ShouldDeleteDuringUpdate(ctx, obj, existing)
}

// checkRevision compares the resourceVersion that the client sent with the live one. If the client sent none and the type allows that, it gives
// the object the live one ("Updates to existing resources" of the API concepts page).
func (r *UpdateRequest) checkRevision(ctx context.Context, obj runtime.Object, live *Object) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	sent, err := revisionOfObject(m.GetResourceVersion())
	if err != nil {
		return err
	}
	resource := r.Type.RequestResource(ctx)
	switch {
	case sent == 0 && r.Strategy.AllowUnconditionalUpdate(ctx):
		m.SetResourceVersion(FormatRevision(live.Revision))
	case sent == 0:
		return apierrors.NewInvalid(schema.GroupKind{Group: resource.Group, Kind: resource.Resource}, r.Name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), sent, "must be specified for an update")})
	case sent != live.Revision:
		return apierrors.NewConflict(resource, r.Name, errors.New(optimisticLockMessage))
	}
	return nil
}

// uidPreconditionError has kube-apiserver's text, which names the key of the object in etcd; a dry run knows only part of that key.
func (r *UpdateRequest) uidPreconditionError(key Key, have types.UID) error {
	in := key.InEtcd()
	if r.DryRun {
		in = strings.TrimPrefix(in, "/registry")
	}
	return fmt.Errorf("StorageError: invalid object, Code: 4, Key: %s, ResourceVersion: 0, AdditionalErrorMsg: "+
		"Precondition failed: UID in precondition: %v, UID in object meta: %v", in, r.UID, have)
}

// RequestResource is the resource as errors name it: the request's, else the type's own.
func (t *Type) RequestResource(ctx context.Context) schema.GroupResource {
	if info, ok := genericapirequest.RequestInfoFrom(ctx); ok {
		return schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}
	}
	return t.GroupResource
}
