package handlers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/codec"
)

// computed answers get and list of a type whose objects are not stored but found out when asked for.
func (h *Handlers) computed(q *request) error {
	f, err := q.format()
	if err != nil {
		return err
	}
	if q.info.Verb == "watch" {
		return apierrors.NewMethodNotSupported(q.resource(), q.info.Verb)
	}
	found, err := q.served.Computed(q.ctx, h.Store)
	if err != nil {
		return err
	}
	objects := make([]*resources.Object, 0, len(found))
	for _, hub := range found {
		o, err := q.unstored(hub)
		if err != nil {
			return err
		}
		if len(q.info.Parts) > 1 && o.Name == q.info.Name {
			return q.object(http.StatusOK, f, o)
		}
		objects = append(objects, o)
	}
	if len(q.info.Parts) > 1 {
		return apierrors.NewNotFound(schema.GroupResource{Group: q.served.Group, Resource: q.served.SingularName}, q.info.Name)
	}
	return h.computedList(q, f, objects)
}

func (h *Handlers) computedList(q *request, f codec.Format, objects []*resources.Object) error {
	opts, err := q.listOptions()
	if err != nil {
		return err
	}
	s := q.selection(opts)
	var selected []*resources.Object
	for _, o := range objects {
		if s.matches(o) {
			selected = append(selected, o)
		}
	}
	list, err := codec.NewRenderer(q.served, f).List(selected, listMeta(""))
	if err != nil {
		return err
	}
	q.auditList(q.served, f, selected, listMeta(""))
	return q.stream(f, list)
}

// unstored gives a computed object the form of a stored one, without a revision.
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
