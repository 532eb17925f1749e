package handlers

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/codec"
)

// update replaces an object ("HTTP PUT to replace existing resource").
func (h *Handlers) update(q *request) error {
	opts := &metav1.UpdateOptions{}
	f, body, err := q.begin(opts, "UpdateOptions", func() field.ErrorList { return metav1validation.ValidateUpdateOptions(opts) })
	if err != nil {
		return err
	}
	into, err := q.newHub()
	if err != nil {
		return err
	}
	obj, err := q.decode(body, into, validationOf(opts.FieldValidation))
	if err != nil {
		return err
	}
	uid, err := q.checkSent(obj)
	if err != nil {
		return err
	}
	manager, err := h.manager(q)
	if err != nil {
		return err
	}
	name := managerName(opts.FieldManager, q.r.UserAgent())
	m := &modification{h: h, q: q, options: opts, uid: uid, apply: func(_ context.Context, existing runtime.Object, _ func() ([]byte, error)) (runtime.Object, error) {
		// Strategies write into the object. The first round may have it; further ones start from what was sent.
		sent := obj
		if obj = nil; sent == nil {
			if sent, err = q.decodeAgain(body); err != nil {
				return nil, err
			}
		}
		return manager.Update(existing, sent, name), nil
	}}
	return m.run(f)
}

// decodeAgain decodes a body that was decoded and checked before; what there was to warn of was said then.
func (q *request) decodeAgain(body []byte) (runtime.Object, error) {
	into, err := q.newHub()
	if err != nil {
		return nil, err
	}
	obj, err := q.decode(body, into, metav1.FieldValidationIgnore)
	if err != nil {
		return nil, err
	}
	if m, err := meta.Accessor(obj); err == nil {
		dedupOwners(q.ctx, m, false)
	}
	return obj, nil
}

// checkSent holds the namespace and the name of the object against the request's, and returns its UID, which must then
// be that of the stored object.
func (q *request) checkSent(obj runtime.Object) (types.UID, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return "", nil
	}
	if err := rest.EnsureObjectNamespaceMatchesRequestNamespace(q.namespace(), m); err != nil {
		return "", err
	}
	if err := q.checkName(m); err != nil {
		return "", err
	}
	dedupOwners(q.ctx, m, false)
	return m.GetUID(), nil
}

func (q *request) checkName(m metav1.Object) error {
	if m.GetName() == "" {
		return apierrors.NewBadRequest("the name of the object (" + q.info.Name + " based on URL) was undeterminable: name must be provided")
	}
	if m.GetName() != q.info.Name {
		return apierrors.NewBadRequest("the name of the object (" + m.GetName() + ") does not match the name on the URL (" + q.info.Name + ")")
	}
	return nil
}

// modification is an update or a patch, of an object or through a subresource.
type modification struct {
	h       *Handlers
	q       *request
	options *metav1.UpdateOptions
	uid     types.UID
	// apply makes the new object of the existing one; json returns the latter in the version of the request.
	apply func(ctx context.Context, existing runtime.Object, json func() ([]byte, error)) (runtime.Object, error)
	// forceCreate: a missing object is created (server-side apply).
	forceCreate bool
}

func (m *modification) run(f codec.Format) error {
	q := m.q
	dry := dryrun.IsDryRun(m.options.DryRun)
	r := resources.UpdateRequest{Type: q.served.Type, Name: q.info.Name, Strategy: q.served.UpdateStrategy, UID: m.uid,
		ForceCreate: m.forceCreate && (q.sub == nil || q.sub.AppliedNew), DryRun: dry, Change: m.change,
		ValidateCreate: m.h.createValidation(q, q.info.Name, createOptionsOf(m.options), dry),
		ValidateUpdate: func(ctx context.Context, obj, old runtime.Object) error {
			return m.h.validate(q, q.attributes(obj, old, q.info.Name, admission.Update, m.options, dry))
		}}
	if q.sub != nil {
		r.Strategy = q.sub.UpdateStrategy
	}
	stored, created, err := r.Apply(q.ctx, m.h.Store)
	if err != nil {
		return err
	}
	code := http.StatusOK
	if created {
		code = http.StatusCreated
	}
	if q.sub != nil && q.sub.Projection != nil {
		return q.projected(code, f, stored)
	}
	return q.object(code, f, stored)
}

// change computes the new object and takes it through mutating admission.
func (m *modification) change(ctx context.Context, existing runtime.Object, live *resources.Object) (runtime.Object, error) {
	if m.q.sub != nil && m.q.sub.Projection != nil && live == nil {
		return nil, apierrors.NewNotFound(m.q.resource(), m.q.info.Name)
	}
	if m.q.sub != nil && m.q.sub.Projection != nil {
		return m.changeProjected(ctx, existing)
	}
	obj, err := m.apply(ctx, existing, func() ([]byte, error) {
		return codec.VersionedJSON(m.q.served, live)
	})
	if err != nil {
		return nil, err
	}
	return obj, m.admit(obj, existing, live != nil)
}

// admit runs mutating admission over the new object.
func (m *modification) admit(obj, existing runtime.Object, exists bool) error {
	dry := dryrun.IsDryRun(m.options.DryRun)
	a := m.q.attributes(obj, existing, m.q.info.Name, admission.Update, m.options, dry)
	if !exists {
		a = m.q.attributes(obj, nil, m.q.info.Name, admission.Create, createOptionsOf(m.options), dry)
	}
	if err := m.h.admit(m.q, a); err != nil {
		return err
	}
	if acc, err := meta.Accessor(obj); err == nil {
		dedupOwners(m.q.ctx, acc, true)
	}
	return nil
}

func (h *Handlers) createValidation(q *request, name string, opts *metav1.CreateOptions, dry bool) resources.Validation {
	return func(ctx context.Context, obj runtime.Object) error {
		name := name // each attempt at a generated name has its own
		if m, err := meta.Accessor(obj); err == nil && name == "" {
			name = m.GetName()
		}
		return h.validate(q, q.attributes(obj, nil, name, admission.Create, opts, dry))
	}
}

func createOptionsOf(o *metav1.UpdateOptions) *metav1.CreateOptions {
	c := &metav1.CreateOptions{DryRun: o.DryRun, FieldManager: o.FieldManager, FieldValidation: o.FieldValidation}
	c.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("CreateOptions"))
	return c
}
