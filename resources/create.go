package resources

import (
	"cmp"
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

// maxNameAttempts is the number of names that a create with generateName tries before it reports the collision to the client, as
// kube-apiserver does since v1.30 (KEP-4420).
const maxNameAttempts = 8

// errRevisionOfNew is kube-apiserver's text; it has no code of its own, so the answer is a 500.
var errRevisionOfNew = errors.New("resourceVersion should not be set on objects to be created")

// CreateRequest is the creation of one object.
type CreateRequest struct {
	Type *Type
	// Object is the new object in the hub form. Create changes it and keeps it.
	Object runtime.Object
	// Decode, when set, makes Object from the body, and may set Options and DryRun. Such an object is stored without its
	// managedFields if it is too large with them, as in kube-apiserver.
	Decode func() (runtime.Object, error)
	// Options are the options of the request, for admission. Nil: none.
	Options *metav1.CreateOptions
	// DryRun: the create does everything except the storing.
	DryRun bool
	// Accepted, when set, remembers over several attempts at the request that validating admission has accepted the new object; see IsValidatedAgain.
	Accepted *bool

	// name is the name that the object was sent with; admission may change the object's. Empty: the name is to be generated.
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
		stored, err = p.create(ctx, r)
	}
	p.written(ctx, AuditEvent{Type: r.Type, Name: nameOf(r.Object), Object: stored, Created: err == nil, DryRun: r.DryRun, Err: err})
	return stored, err
}

func (p *Pipeline) create(ctx context.Context, r *CreateRequest) (stored *Object, err error) {
	if r.Decode != nil {
		if r.Object, err = r.Decode(); err != nil {
			return nil, err
		}
	}
	p.sent(ctx, r.Type, r.Object)
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
	if stored, err = p.createNamed(ctx, r, m); errors.Is(err, ErrTooLarge) && r.Decode != nil {
		m.SetManagedFields(nil)
		stored, err = p.createNamed(ctx, r, m)
	}
	return stored, err
}

// createNamed creates an object that was admitted, under its name or generated ones.
func (p *Pipeline) createNamed(ctx context.Context, r *CreateRequest, m metav1.Object) (stored *Object, err error) {
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

// disown removes the managedFields of an object.
func disown(obj runtime.Object) {
	if m, err := meta.Accessor(obj); err == nil {
		m.SetManagedFields(nil)
	}
}

func (r *CreateRequest) admitted(obj runtime.Object) admitted {
	return admitted{t: r.Type, obj: obj, name: r.name, op: admission.Create, options: r.Options, dryRun: r.DryRun}
}

// nameOf is the name of an object, empty for a nil object.
func nameOf(obj runtime.Object) string {
	m, err := meta.Accessor(obj)
	if err != nil {
		return ""
	}
	return m.GetName()
}

// errTaken: another writer took the object's share of a supply (an address, a port) before the object was stored.
var errTaken = errors.New("allocated by another request")

// createOnce creates an object under one name.
func (p *Pipeline) createOnce(ctx context.Context, r *CreateRequest, obj runtime.Object) (*Object, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	r.Type.fill(m)
	accepted := cmp.Or(r.Accepted, new(bool))
	validate := func(obj runtime.Object) error { return p.validateNew(ctx, r.admitted(obj), accepted) }
	if r.Type.Allocate == nil {
		return p.attempt(ctx, r, obj, validate)
	}
	// Validating admission sees the object that is stored, with what was allocated to it in the last round. All rounds have the name and the UID of
	// the first. Another request won each round that this one loses, so the loop ends.
	for {
		stored, err := p.attempt(ctx, r, obj.DeepCopyObject(), validate)
		if !errors.Is(err, errTaken) || ctx.Err() != nil {
			return stored, err
		}
	}
}

// againKey marks the context of a validation for IsValidatedAgain.
type againKey struct{}

// IsValidatedAgain tells whether validating admission has accepted the new object of the request before: under a name, or with an address or port,
// that another request has taken since, or by a definition that has changed since. A quota must not count it again.
func IsValidatedAgain(ctx context.Context) bool { return ctx.Value(againKey{}) != nil }

// validateNew runs validating admission on a new object. accepted remembers that it has accepted the object of the request.
func (p *Pipeline) validateNew(ctx context.Context, a admitted, accepted *bool) error {
	if *accepted {
		ctx = context.WithValue(ctx, againKey{}, true)
	}
	err := p.validate(ctx, a)
	*accepted = *accepted || err == nil
	return err
}

func (p *Pipeline) attempt(ctx context.Context, r *CreateRequest, obj runtime.Object, validate func(runtime.Object) error) (*Object, error) {
	ctx, shares := p.sharing(ctx, r.Type, r.DryRun)
	stored, writes, err := p.try(ctx, r, obj, validate)
	shares.end(stored, writes, err)
	return stored, err
}

// try is attempt, and returns the writes as well.
func (p *Pipeline) try(ctx context.Context, r *CreateRequest, obj runtime.Object, validate func(runtime.Object) error) (*Object, []Write, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, nil, err
	}
	sent, perr := revisionOfObject(m.GetResourceVersion()) // a value that is not a number is ignored, as in kube-apiserver
	writes, err := prepareCreate(ctx, p.store, r.Type, obj, true, func() error { return validate(obj) })
	if err != nil {
		return nil, nil, err
	}
	if r.DryRun {
		o, err := createDry(ctx, p.store, r.Type, writes[0], obj)
		return o, nil, err
	}
	if perr == nil && sent != 0 {
		return nil, nil, errRevisionOfNew
	}
	stored, err := commitNew(ctx, p.store, writes)
	if errors.Is(err, ErrExists) {
		return nil, nil, p.exists(ctx, r, writes, obj)
	}
	if conflict := (*ConflictError)(nil); errors.As(err, &conflict) || errors.Is(err, ErrNotFound) {
		return nil, nil, errTaken // a key of the supply: the object itself is new
	}
	if err != nil {
		return nil, nil, err
	}
	return stored[0], writes, nil
}

// mostRemovals bounds the removals in the transaction of a create or an update.
const mostRemovals = 500

// commitNew commits the writes of a create, or of an update by which an object begins to be in force. All other writes would wait for a transaction
// with very many removals, so these come first, in transactions of their own, and errTaken makes the write begin again. Each of them is on condition
// that the server's own rows, by which such writes exclude each other, are as they were read: where another one has won meanwhile, nothing of its
// objects is removed.
func commitNew(ctx context.Context, s Store, writes []Write) ([]*Object, error) {
	var removals, rows []Write
	for _, w := range writes {
		switch {
		case w.Op == Delete:
			removals = append(removals, w)
		case IsOwnRow(w.Key.Resource):
			rows = append(rows, w)
		}
	}
	if len(removals) <= mostRemovals {
		return s.Commit(ctx, writes...)
	}
	for some := range slices.Chunk(removals, mostRemovals) {
		stored, err := s.Commit(ctx, slices.Concat(rows, some)...)
		if errors.As(err, new(*ExpectationError)) {
			return nil, errTaken
		}
		if err != nil {
			return nil, err
		}
		for i := range rows {
			if rows[i].Op != Expect {
				rows[i] = Write{Op: Expect, Key: rows[i].Key, From: stored[i].Revision}
			}
		}
	}
	return nil, errTaken
}

// exists is the error of a create that found a key taken: the object's own, or a key of a supply.
func (p *Pipeline) exists(ctx context.Context, r *CreateRequest, writes []Write, obj runtime.Object) error {
	if slices.ContainsFunc(writes[1:], func(w Write) bool { return w.Op == Create }) {
		if _, err := p.store.Get(ctx, writes[0].Key, At{Match: MostRecent}); errors.Is(err, ErrNotFound) {
			return errTaken
		}
	}
	return alreadyExists(ctx, p.store, r.Type, writes[0].Key, obj)
}

// PrepareCreate applies the create rules of its type to a new object (hub form, which it changes) and returns the writes that
// would store it: the object's own first, then those of its allocations. It is for objects that are written as part of another
// object's write (Type.Allocate), whose admission covers them; see CreateShare.
//
// Errors are API status errors, or those of the Reader.
func PrepareCreate(ctx context.Context, s Reader, t *Type, obj runtime.Object) ([]Write, error) {
	return prepareNew(ctx, s, t, obj, nil)
}

func prepareNew(ctx context.Context, s Reader, t *Type, obj runtime.Object, validate func() error) ([]Write, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	t.fill(m)
	return prepareCreate(ctx, s, t, obj, true, validate)
}

// fill gives a new object its UID, its time and, if it is to be generated, its name.
func (t *Type) fill(m metav1.Object) {
	rest.FillObjectMetaSystemFields(m)
	if m.GetGenerateName() != "" && m.GetName() == "" {
		m.SetName(t.CreateStrategy.GenerateName(m.GetGenerateName()))
	}
}

// prepareCreate is PrepareCreate for an object that fill has filled.
func prepareCreate(ctx context.Context, s Reader, t *Type, obj runtime.Object, allocate bool, validate func() error) ([]Write, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
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
	key, err := t.RequestKey(ctx, strings.Clone(m.GetName())) // the key outlives the request, which the name is a part of
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

// required adds to the writes of an object, its own first, the condition that the definition of the type has not changed since
// it was read. A removal applies no rules and needs no condition.
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

// createDry takes the name of an object that cannot be decrypted as free, as kube-apiserver does.
func createDry(ctx context.Context, s Reader, t *Type, w Write, obj runtime.Object) (*Object, error) {
	switch _, err := s.Get(ctx, w.Key, At{Match: MostRecent}); {
	case err == nil:
		return nil, alreadyExists(ctx, s, t, w.Key, obj)
	case !errors.Is(err, ErrNotFound) && !errors.As(err, new(*TransformError)):
		return nil, err
	}
	return NewObject(w.Key, w.Draft.withoutRevision(), 0), nil
}

// alreadyExists is the error of a create whose name is taken: it distinguishes a generated name from a given one, and says when
// the existing object is being deleted.
func alreadyExists(ctx context.Context, s Reader, t *Type, key Key, obj runtime.Object) error {
	err := rest.CheckGeneratedNameError(ctx, t.CreateStrategy, apierrors.NewAlreadyExists(t.RequestResource(ctx), key.Name), obj)
	current, gerr := s.Get(ctx, key, At{Match: MostRecent})
	if gerr != nil {
		return err
	}
	kept, derr := t.decodeKept(current)
	if derr != nil {
		return err
	}
	var status *apierrors.StatusError
	if m, merr := meta.Accessor(kept); merr == nil && m.GetDeletionTimestamp() != nil && errors.As(err, &status) {
		status.ErrStatus.Message = "object is being deleted: " + status.ErrStatus.Message
	}
	return err
}

// RequestKey returns the key of a name in the namespace of the request's context.
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
