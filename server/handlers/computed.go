package handlers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/codec"
)

// computed answers get and list of a type whose objects are not stored but computed for each request, and refuses watches.
func (h *Handlers) computed(q *request) error {
	f, err := q.format()
	if err != nil {
		return err
	}
	if len(q.info.Parts) > 1 {
		return h.computedObject(q, f)
	}
	return h.computedList(q, f)
}

func (h *Handlers) computedObject(q *request, f codec.Format) error {
	if _, err := q.getRevision(); err != nil { // a computed object has none
		return err
	}
	page, err := q.served.Computed(q.ctx, h.Store, resources.ComputedQuery{Namespace: q.namespace(), Name: q.info.Name})
	if err != nil {
		return err
	}
	for _, hub := range page.Objects {
		o, err := q.unstored(hub)
		if err != nil {
			return err
		}
		if o.Name == q.info.Name {
			return q.object(http.StatusOK, f, o)
		}
	}
	resource := q.served.GroupResource
	if resource.Group == "" {
		resource.Resource = q.served.SingularName // as kube-apiserver names ComponentStatuses
	}
	return apierrors.NewNotFound(resource, q.info.Name)
}

func (h *Handlers) computedList(q *request, f codec.Format) error {
	opts, err := q.listOptions()
	if err != nil {
		return err
	}
	if q.info.Verb == "watch" {
		return apierrors.NewMethodNotSupported(q.resource(), q.info.Verb)
	}
	page, err := q.served.Computed(q.ctx, h.Store, resources.ComputedQuery{Namespace: q.namespace(), Fields: opts.FieldSelector, Limit: opts.Limit, Continue: opts.Continue})
	if err != nil {
		return err
	}
	s := q.selection(opts)
	var selected []*resources.Object
	for _, hub := range page.Objects {
		o, err := q.unstored(hub)
		if err != nil {
			return err
		}
		if s.matches(o) {
			selected = append(selected, o)
		}
	}
	if s.failed != nil {
		return s.failed
	}
	m := metav1.ListMeta{Continue: page.Continue}
	list, err := codec.NewRenderer(q.served, f).List(selected, m)
	if err != nil {
		return err
	}
	q.auditList(q.served, f, selected, m)
	return q.stream(f, list)
}

// unstored gives a computed object the form of a stored one, without a resourceVersion.
func (q *request) unstored(hub runtime.Object) (*resources.Object, error) {
	m, err := meta.Accessor(hub)
	if err != nil {
		return nil, err
	}
	versioned, err := q.served.ToVersion(hub, q.served.GroupVersion())
	if err != nil {
		return nil, fmt.Errorf("convert %s: %w", q.served.GroupResource, err)
	}
	versioned.GetObjectKind().SetGroupVersionKind(q.served.GroupVersionKind)
	var buf bytes.Buffer
	if err := json.NewEncoder(&buf).Encode(versioned); err != nil {
		return nil, err
	}
	return resources.LoadObject(q.served.KeyOf(m.GetNamespace(), m.GetName()), 0, bytes.TrimRight(buf.Bytes(), "\n"), m.GetLabels(), nil), nil
}
