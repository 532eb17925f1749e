package handlers

import (
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/server/codec"
)

// create stores a new object, or runs the operation of a virtual type or a subresource.
func (h *Handlers) create(q *request) error {
	opts := &metav1.CreateOptions{}
	var f codec.Format
	decode := func() (runtime.Object, error) {
		var body []byte
		var err error
		f, body, err = q.begin(opts, "CreateOptions", func() field.ErrorList { return metav1validation.ValidateCreateOptions(opts) })
		if err != nil {
			return nil, err
		}
		return h.decodeNew(q, body, opts)
	}
	if operation := q.operation(); operation != nil {
		result, err := h.Pipeline.Operate(q.ctx, &resources.OperationRequest{Type: q.served.Type, Name: q.info.Name, Do: operation,
			Complete: q.completion(), Decode: decode, Options: opts})
		if err != nil {
			return err
		}
		return q.answer(http.StatusCreated, f, result)
	}
	r := &resources.CreateRequest{Type: q.served.Type, Options: opts, Accepted: &q.sent.accepted}
	r.Decode = func() (runtime.Object, error) {
		obj, err := decode()
		r.DryRun = dryrun.IsDryRun(opts.DryRun)
		return obj, err
	}
	stored, err := h.Pipeline.Create(q.ctx, r)
	if err != nil {
		return err
	}
	q.written = true
	if r.DryRun {
		if err := h.unwritten(q); err != nil {
			return err
		}
	}
	return q.object(http.StatusCreated, f, stored)
}

// decodeNew decodes a new object into its hub version.
func (h *Handlers) decodeNew(q *request, body []byte, opts *metav1.CreateOptions) (runtime.Object, error) {
	obj, err := q.decodeSent(body, validationOf(opts.FieldValidation))
	if err != nil {
		return nil, err
	}
	q.auditSent(obj)
	if err := q.prepareNew(obj); err != nil {
		return nil, err
	}
	return h.own(q, obj, opts)
}

// decodeSent is decode for an object of the path, parts of which may stay text (resources.Lean).
func (q *request) decodeSent(body []byte, fieldValidation string) (runtime.Object, error) {
	if q.lifts() {
		if media, err := q.offer.BodyMedia(q.r); err == nil && media == codec.JSON && fastpath.BodyKind.On() {
			if obj := q.decodeLifted(body, fieldValidation); obj != nil {
				return obj, nil
			}
		}
		fastpath.DefinitionSchemas.Fallback()
	}
	into, err := q.newHub()
	if err != nil {
		return nil, err
	}
	return q.decode(body, into, fieldValidation)
}

// own sets the managedFields of a new object.
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

// newHub returns an empty object of the kind of request bodies.
func (q *request) newHub() (runtime.Object, error) {
	switch {
	case q.sub == nil || q.kind == q.served.GroupVersionKind:
		return q.served.New(), nil
	case q.sub.Projection != nil:
		return q.sub.Projection.New(), nil
	}
	return q.served.Scheme.New(q.served.HubOf(q.kind.Group).WithKind(q.kind.Kind))
}

// operation returns the function that answers instead of the store, if any.
func (q *request) operation() resources.CreateFunc {
	if q.sub != nil {
		return q.sub.Create
	}
	return q.served.Virtual
}

// completion returns the function that completes an operation's object before the operation runs.
func (q *request) completion() resources.CompleteFunc {
	if q.sub != nil {
		return q.sub.Complete
	}
	return nil
}

// prepareNew clears the system fields of a new object, and checks that its namespace is the request's.
func (q *request) prepareNew(obj runtime.Object) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil // a kind without metadata
	}
	if q.sub == nil || !q.sub.KeepMeta {
		rest.WipeObjectMetaSystemFields(m)
	}
	if err := rest.EnsureObjectNamespaceMatchesRequestNamespace(q.namespace(), m); err != nil {
		return err
	}
	resources.DedupOwners(q.ctx, m, false)
	return nil
}

// answer writes the result of an operation: a Status, or an object of the type in its hub version.
func (q *request) answer(code int, f codec.Format, result runtime.Object) error {
	if s, ok := result.(*metav1.Status); ok {
		if s.Code == 0 {
			s.Code = int32(code)
		}
		s.SetGroupVersionKind(metav1.Unversioned.WithKind("Status"))
		return q.value(code, f, s)
	}
	if q.sub != nil && q.kind != q.served.GroupVersionKind {
		return q.ofSubresource(code, f, q.served.KeyOf(q.info.Namespace, q.info.Name), 0, result)
	}
	o, err := q.unstored(result)
	if err != nil {
		return err
	}
	return q.object(code, f, o)
}
