package handlers

import (
	"context"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fieldmanager"
	"github.com/rowlock/rowlock/server/codec"
)

// update replaces an object ("HTTP PUT to replace existing resource").
func (h *Handlers) update(q *request) error {
	opts := &metav1.UpdateOptions{}
	m := &modification{q: q}
	var (
		body    []byte
		obj     runtime.Object
		manager *fieldmanager.Manager
		by      string
	)
	m.apply = func(_ context.Context, existing runtime.Object, _ func() ([]byte, error)) (_ runtime.Object, err error) {
		// Strategies modify the object. The first attempt may use it; further ones decode the body again.
		sent := obj
		if obj = nil; sent == nil {
			if sent, err = q.decodeAgain(body); err != nil {
				return nil, err
			}
		}
		if err := q.bothWhole(existing, sent); err != nil {
			return nil, err
		}
		return manager.Update(existing, sent, by), nil
	}
	r := m.request()
	r.Decode = func() (err error) {
		m.format, body, err = q.begin(opts, "UpdateOptions", func() field.ErrorList { return metav1validation.ValidateUpdateOptions(opts) })
		if err != nil {
			return err
		}
		r.Options, r.DryRun = opts, dryrun.IsDryRun(opts.DryRun)
		if manager, err = h.manager(q); err != nil {
			return err
		}
		by = managerName(opts.FieldManager, q.r.UserAgent())
		if obj, err = q.decodeSent(body, validationOf(opts.FieldValidation)); err != nil {
			return err
		}
		if q.isLean(obj) {
			r.Existing = q.existingLean
		}
		q.auditSent(obj)
		r.UID, err = q.checkSent(obj)
		return err
	}
	return h.modify(m, r)
}

// decodeAgain decodes a body that has been decoded and validated before; warnings were issued then.
func (q *request) decodeAgain(body []byte) (runtime.Object, error) {
	obj, err := q.decodeSent(body, metav1.FieldValidationIgnore)
	if err != nil {
		return nil, err
	}
	if m, err := meta.Accessor(obj); err == nil {
		resources.DedupOwners(q.ctx, m, false)
	}
	return obj, nil
}

// checkSent compares the namespace and the name of the object with the request's, and returns its UID, which the stored object must have.
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
	resources.DedupOwners(q.ctx, m, false)
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
	q *request
	// format is the format of the response.
	format codec.Format
	// live is the revision of the object that was last modified.
	live int64
	// apply makes the new object from the existing one; json returns the latter in the request's version.
	apply func(ctx context.Context, existing runtime.Object, json func() ([]byte, error)) (runtime.Object, error)
}

// request returns the modification for the pipeline; its Decode is still to be set.
func (m *modification) request() *resources.UpdateRequest {
	q := m.q
	return &resources.UpdateRequest{Type: q.served.Type, Name: q.info.Name, Accepted: &q.sent.accepted,
		Change: func(ctx context.Context, existing runtime.Object, live *resources.Object) (runtime.Object, error) {
			if live != nil {
				m.live = live.Revision
			}
			return m.apply(ctx, existing, func() ([]byte, error) {
				if q.sub != nil && q.sub.Projection != nil {
					return q.projectedJSON(existing)
				}
				return codec.VersionedJSON(q.served, live.Whole())
			})
		}}
}

// modify runs an update or a patch through the pipeline, and writes the response.
func (h *Handlers) modify(m *modification, r *resources.UpdateRequest) error {
	q := m.q
	stored, created, err := h.Pipeline.Update(q.ctx, r)
	if err != nil {
		return err
	}
	q.written = true
	if r.DryRun || stored.Revision == m.live && !r.Removed {
		if err := h.unwritten(q); err != nil {
			return err
		}
	}
	code := http.StatusOK
	if created {
		code = http.StatusCreated
	}
	if q.sub != nil && q.sub.Projection != nil {
		show := q.sub.Projection.FromParent
		if c, ok := q.sub.Projection.(resources.Changeable); ok {
			show = c.Changed
		}
		return q.projected(code, m.format, stored, show)
	}
	err = q.object(code, m.format, stored)
	if r.DeletingElsewhere && stored.Terminating() && errors.As(err, new(*resources.ConversionError)) {
		if err := q.asStored(stored); err != nil { // as a deletion is answered: the change is stored
			return err
		}
		return q.object(code, m.format, stored)
	}
	return err
}
