package resources

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
)

// maxNameAttempts is how often a create with generateName draws another name before the client is told of the
// collision, as kube-apiserver does since v1.30 (KEP-4420).
const maxNameAttempts = 8

// errRevisionOfNew is kube-apiserver's text; it has no code of its own, so that it becomes a 500.
var errRevisionOfNew = errors.New("resourceVersion should not be set on objects to be created")

// CreateRequest is the creation of one object.
type CreateRequest struct {
	Type *Type
	// Object is the new object in the hub form. It is changed and kept.
	Object runtime.Object
	// Decode, when set, makes Object of what was sent, and may set Options and DryRun. It is called again when the object is too
	// large with its managedFields, which kube-apiserver then leaves out.
	Decode func() (runtime.Object, error)
	// Options are those of the request, for admission. Nil: there are none.
	Options *metav1.CreateOptions
	// DryRun: everything happens but the storing.
	DryRun bool

	// name is what the object was sent with, which admission may change. Empty: it is to be generated.
	name string
}

// Create stores a new object, by the rules of its type; see Pipeline. The context carries the request's namespace, user and
// RequestInfo, also for the strategies.
//
// Errors are API status errors, or those of Store.Commit that the caller maps.
func (p *Pipeline) Create(ctx context.Context, r *CreateRequest) (*Object, error) {
	ctx, err := p.begin(ctx)
	if err != nil {
		return nil, err
	}
	var stored *Object
	if err = p.authorize(ctx); err == nil {
		if stored, err = p.create(ctx, r, false); errors.Is(err, ErrTooLarge) && r.Decode != nil {
			stored, err = p.create(ctx, r, true)
		}
	}
	p.written(ctx, AuditEvent{Type: r.Type, Name: nameOf(r.Object), Object: stored, Created: err == nil, DryRun: r.DryRun, Err: err})
	return stored, err
}

func (p *Pipeline) create(ctx context.Context, r *CreateRequest, disowned bool) (stored *Object, err error) {
	if r.Decode != nil {
		if r.Object, err = r.Decode(); err != nil {
			return nil, err
		}
	}
	p.sent(ctx, r.Type, r.Object)
	if disowned {
		disown(r.Object)
	}
	if r.Options == nil {
		r.Options = plainCreate
	}
	r.name = nameOf(r.Object)
	if r.Type.BeforeCreate != nil {
		if err := r.Type.BeforeCreate(ctx, r.name); err != nil {
			return nil, err
		}
	}
	if err := p.admit(ctx, r.admitted(r.Object)); err != nil {
		return nil, err
	}
	if err := r.Type.permit(ctx, r.Object, nil); err != nil {
		return nil, err
	}
	m, err := meta.Accessor(r.Object)
	if err != nil {
		return nil, err
	}
	DedupOwners(ctx, m, true)
	if m.GetGenerateName() == "" || m.GetName() != "" {
		return p.createOnce(ctx, r, r.Object)
	}
	for range maxNameAttempts {
		stored, err = p.createOnce(ctx, r, r.Object.DeepCopyObject())
		if err == nil || !apierrors.IsAlreadyExists(err) {
			break
		}
	}
	return stored, err
}

func (t *Type) permit(ctx context.Context, obj, old runtime.Object) error {
	if t.Permit == nil {
		return nil
	}
	return t.Permit(ctx, obj, old)
}

// disown takes managedFields out of an object.
func disown(obj runtime.Object) {
	if m, err := meta.Accessor(obj); err == nil {
		m.SetManagedFields(nil)
	}
}

func (r *CreateRequest) admitted(obj runtime.Object) admitted {
	return admitted{t: r.Type, obj: obj, name: r.name, op: admission.Create, options: r.Options, dryRun: r.DryRun}
}

// nameOf is the name of an object, empty for none.
func nameOf(obj runtime.Object) string {
	m, err := meta.Accessor(obj)
	if err != nil {
		return ""
	}
	return m.GetName()
}

// errTaken: another writer took what the object was to get of a shared supply before it was stored.
var errTaken = errors.New("allocated by another request")

// createOnce creates an object under one name.
func (p *Pipeline) createOnce(ctx context.Context, r *CreateRequest, obj runtime.Object) (*Object, error) {
	if r.Type.Allocate == nil {
		return p.attempt(ctx, r, obj)
	}
	// Each round that is lost was won by another request, so this comes to an end.
	for {
		stored, err := p.attempt(ctx, r, obj.DeepCopyObject())
		if !errors.Is(err, errTaken) || ctx.Err() != nil {
			return stored, err
		}
	}
}

func (p *Pipeline) attempt(ctx context.Context, r *CreateRequest, obj runtime.Object) (*Object, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	sent, perr := revisionOfObject(m.GetResourceVersion()) // what is no number is passed over, as kube-apiserver does
	// Without a name there is nothing to allocate to. A dry run goes on to say all that is wrong.
	nothing := r.DryRun && m.GetName() == "" && m.GetGenerateName() == ""
	a := r.admitted(obj)
	writes, err := prepareCreate(allocatingDry(ctx, r.DryRun), p.store, r.Type, obj, !nothing, func() error { return p.validate(ctx, a) })
	if err != nil {
		return nil, err
	}
	if r.DryRun {
		return createDry(ctx, p.store, r.Type, writes[0], obj)
	}
	if perr == nil && sent != 0 {
		return nil, errRevisionOfNew
	}
	stored, err := p.store.Commit(ctx, writes...)
	if errors.Is(err, ErrExists) {
		return nil, p.exists(ctx, r, writes, obj)
	}
	if conflict := (*ConflictError)(nil); errors.As(err, &conflict) || errors.Is(err, ErrNotFound) {
		return nil, errTaken // of what others share: the object itself is new
	}
	if err != nil {
		return nil, err
	}
	return stored[0], nil
}

// exists is the error of a create one of whose writes found its key taken: the object's own, or one of a supply.
func (p *Pipeline) exists(ctx context.Context, r *CreateRequest, writes []Write, obj runtime.Object) error {
	if slices.ContainsFunc(writes[1:], func(w Write) bool { return w.Op == Create }) {
		if _, err := p.store.Get(ctx, writes[0].Key, At{Match: MostRecent}); errors.Is(err, ErrNotFound) {
			return errTaken
		}
	}
	return alreadyExists(ctx, p.store, r.Type, writes[0].Key, obj)
}

// PrepareCreate takes a new object (hub form, which it changes) through the create rules of its type to the writes that
// would store it: the object's own first, then those of what is allocated to it. It is for what is written as part of
// another object's write (Type.Allocate), whose admission stands for it.
//
// Errors are API status errors, or those of the Reader.
func PrepareCreate(ctx context.Context, s Reader, t *Type, obj runtime.Object) ([]Write, error) {
	return prepareCreate(ctx, s, t, obj, true, nil)
}

func prepareCreate(ctx context.Context, s Reader, t *Type, obj runtime.Object, allocate bool, validate func() error) ([]Write, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	rest.FillObjectMetaSystemFields(m)
	if m.GetGenerateName() != "" && m.GetName() == "" {
		m.SetName(t.CreateStrategy.GenerateName(m.GetGenerateName()))
	}
	var allocated []Write
	if allocate {
		if allocated, err = t.allocate(ctx, s, obj, nil); err != nil {
			return nil, err
		}
	}
	if err := beforeCreate(ctx, t.CreateStrategy, obj); err != nil {
		return nil, err
	}
	if validate != nil {
		if err := validate(); err != nil {
			return nil, err
		}
	}
	key, err := t.RequestKey(ctx, strings.Clone(m.GetName())) // it outlives the request, of which it is a part
	if err != nil {
		return nil, err
	}
	if errs := key.Storable(); len(errs) > 0 {
		return nil, apierrors.NewInvalid(t.StorageKind().GroupKind(), key.Name, errs)
	}
	draft, err := t.NewDraft(ctx, obj)
	if err != nil {
		return nil, err
	}
	return t.required(append([]Write{{Op: Create, Key: key, Draft: draft, TTL: t.ttl(obj)}}, allocated...)), nil
}

// required adds to the writes of an object, its own first, the condition that the rules are still the ones that it was made by.
// What removes an object goes by no rules.
func (t *Type) required(writes []Write) []Write {
	if r := t.Requires; r != nil && len(writes) > 0 && writes[0].Op != Delete {
		writes = append(writes, Write{Op: Expect, Key: r.Key, From: r.Revision})
	}
	return writes
}

func (t *Type) allocate(ctx context.Context, s Reader, obj, old runtime.Object) ([]Write, error) {
	if t.Allocate == nil {
		return nil, nil
	}
	return t.Allocate(ctx, s, obj, old)
}

type dryAllocationKey struct{}

func allocatingDry(ctx context.Context, dry bool) context.Context {
	if dry {
		return context.WithValue(ctx, dryAllocationKey{}, true)
	}
	return ctx
}

// AllocatesDry tells Type.Allocate whether nothing of what it allocates is going to be stored.
func AllocatesDry(ctx context.Context) bool { return ctx.Value(dryAllocationKey{}) != nil }

func createDry(ctx context.Context, s Reader, t *Type, w Write, obj runtime.Object) (*Object, error) {
	switch _, err := s.Get(ctx, w.Key, At{Match: MostRecent}); {
	case err == nil:
		return nil, alreadyExists(ctx, s, t, w.Key, obj)
	case !errors.Is(err, ErrNotFound):
		return nil, err
	}
	return NewObject(w.Key, w.Draft.withoutRevision(), 0), nil
}

// alreadyExists is the error of a create whose name is taken: it tells a generated name from a given one, and says when
// the object in the way is being deleted.
func alreadyExists(ctx context.Context, s Reader, t *Type, key Key, obj runtime.Object) error {
	err := rest.CheckGeneratedNameError(ctx, t.CreateStrategy, apierrors.NewAlreadyExists(t.RequestResource(ctx), key.Name), obj)
	current, gerr := s.Get(ctx, key, At{Match: MostRecent})
	if gerr != nil {
		return err
	}
	hub, derr := t.DecodeHub(current)
	if derr != nil {
		return err
	}
	var status *apierrors.StatusError
	if m, merr := meta.Accessor(hub); merr == nil && m.GetDeletionTimestamp() != nil && errors.As(err, &status) {
		status.ErrStatus.Message = "object is being deleted: " + status.ErrStatus.Message
	}
	return err
}

// RequestKey returns the key that a request means by a name, in the namespace of its context.
func (t *Type) RequestKey(ctx context.Context, name string) (Key, error) {
	namespace := ""
	if t.Namespaced {
		if namespace = genericapirequest.NamespaceValue(ctx); namespace == "" {
			return Key{}, apierrors.NewBadRequest("Namespace parameter required.")
		}
	}
	if name == "" {
		return Key{}, apierrors.NewBadRequest("Name parameter required.")
	}
	if msgs := content.IsPathSegmentName(name); len(msgs) > 0 {
		return Key{}, apierrors.NewBadRequest(fmt.Sprintf("Name parameter invalid: %q: %s", name, strings.Join(msgs, ";")))
	}
	return t.KeyOf(namespace, name), nil
}

func (t *Type) ttl(obj runtime.Object) time.Duration {
	if t.TTL == nil {
		return 0
	}
	return t.TTL(obj)
}
