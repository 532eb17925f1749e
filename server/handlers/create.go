package handlers

import (
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/codec"
)

// create stores a new object, or carries out the operation that a virtual type or a subresource stands for.
func (h *Handlers) create(q *request) error {
	opts := &metav1.CreateOptions{}
	f, body, err := q.begin(opts, "CreateOptions", func() field.ErrorList { return metav1validation.ValidateCreateOptions(opts) })
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
	name, err := q.prepareNew(obj)
	if err != nil {
		return err
	}
	if obj, err = h.own(q, obj, opts); err != nil {
		return err
	}
	if operation := q.operation(); operation != nil {
		return h.operate(q, f, operation, obj, name, opts)
	}
	return h.createObject(q, f, obj, name, opts)
}

// own writes who set the fields of a new object.
func (h *Handlers) own(q *request, obj runtime.Object, opts *metav1.CreateOptions) (runtime.Object, error) {
	if _, err := meta.Accessor(obj); err != nil {
		return obj, nil // a kind without metadata
	}
	manager, err := h.manager(q)
	if err != nil {
		return nil, err
	}
	return manager.Create(obj, managerName(opts.FieldManager, q.r.UserAgent())), nil
}

// newHub returns an empty object of the kind that bodies carry.
func (q *request) newHub() (runtime.Object, error) {
	switch {
	case q.sub == nil || q.kind == q.served.GroupVersionKind:
		return q.served.New(), nil
	case q.sub.Projection != nil:
		return q.sub.Projection.New(), nil
	}
	return q.served.Scheme.New(q.served.HubOf(q.kind.Group).WithKind(q.kind.Kind))
}

// operation is the function that answers instead of the store, if any.
func (q *request) operation() resources.CreateFunc {
	if q.sub != nil {
		return q.sub.Create
	}
	return q.served.Virtual
}

// prepareNew takes from a new object what the server alone may say, and holds its namespace against the request's. It
// returns the name that admission is told.
func (q *request) prepareNew(obj runtime.Object) (name string, err error) {
	name = q.info.Name
	m, err := meta.Accessor(obj)
	if err != nil {
		return name, nil // a kind without metadata
	}
	if name == "" {
		name = m.GetName()
	}
	if q.sub == nil || !q.sub.KeepMeta {
		rest.WipeObjectMetaSystemFields(m)
	}
	if err := rest.EnsureObjectNamespaceMatchesRequestNamespace(q.namespace(), m); err != nil {
		return name, err
	}
	dedupOwners(q.ctx, m, false)
	return name, nil
}

func (h *Handlers) createObject(q *request, f codec.Format, obj runtime.Object, name string, opts *metav1.CreateOptions) error {
	dry := dryrun.IsDryRun(opts.DryRun)
	if err := h.admit(q, q.attributes(obj, nil, name, admission.Create, opts, dry)); err != nil {
		return err
	}
	if m, err := meta.Accessor(obj); err == nil {
		dedupOwners(q.ctx, m, true)
	}
	r := resources.CreateRequest{Type: q.served.Type, Object: obj, Validate: h.createValidation(q, name, opts, dry), DryRun: dry}
	stored, err := r.Apply(q.ctx, h.Store)
	if err != nil {
		return err
	}
	return q.object(http.StatusCreated, f, stored)
}

// operate answers a create that is an operation.
func (h *Handlers) operate(q *request, f codec.Format, operation resources.CreateFunc, obj runtime.Object, name string, opts *metav1.CreateOptions) error {
	dry := dryrun.IsDryRun(opts.DryRun)
	if err := h.admit(q, q.attributes(obj, nil, name, admission.Create, opts, dry)); err != nil {
		return err
	}
	if err := h.createValidation(q, name, opts, dry)(q.ctx, obj); err != nil {
		return err
	}
	result, err := operation(q.ctx, h.Store, q.info.Name, obj, opts)
	if err != nil {
		return err
	}
	return q.answer(http.StatusCreated, f, result)
}

// answer writes the result of an operation: a Status, or an object of the type in its hub form.
func (q *request) answer(code int, f codec.Format, result runtime.Object) error {
	if s, ok := result.(*metav1.Status); ok {
		if s.Code == 0 {
			s.Code = int32(code)
		}
		s.SetGroupVersionKind(metav1.Unversioned.WithKind("Status"))
		return q.value(code, f, s)
	}
	o, err := q.unstored(result)
	if err != nil {
		return err
	}
	return q.object(code, f, o)
}
