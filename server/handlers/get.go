package handlers

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/codec"
)

// get returns one object ("Semantics for get and list" of the API concepts page).
func (h *Handlers) get(q *request) error {
	f, err := q.format()
	if err != nil {
		return err
	}
	revision, err := q.getRevision()
	if err != nil {
		return err
	}
	key, err := q.served.RequestKey(q.ctx, q.info.Name)
	if err != nil {
		return err
	}
	at, err := q.getAt(revision)
	if err != nil {
		return err
	}
	o, err := h.Store.Get(q.ctx, key, at)
	if err != nil {
		return tooLarge(err, q.r.URL.Query().Get("resourceVersion"), q.served.Uncached)
	}
	if err := h.outdated(q); err != nil {
		return err
	}
	if q.sub != nil && q.sub.Projection != nil {
		return q.projected(http.StatusOK, f, o, q.sub.Projection.FromParent)
	}
	return q.object(http.StatusOK, f, o)
}

// getRevision returns the resourceVersion of the query. It is parsed later, once the name is known to be valid.
func (q *request) getRevision() (string, error) {
	if q.r.URL.RawQuery == "" {
		return "", nil
	}
	if values := q.r.URL.Query()["export"]; len(values) > 0 {
		var export bool
		if err := runtime.Convert_Slice_string_To_bool(&values, &export, nil); err != nil {
			return "", apierrors.NewBadRequest(fmt.Sprintf("the export parameter cannot be parsed: %v", err))
		}
		if export {
			return "", apierrors.NewBadRequest("the export parameter, deprecated since v1.14, is no longer supported")
		}
	}
	opts := metav1.GetOptions{}
	err := q.decodeOptions(&opts)
	return opts.ResourceVersion, err
}

// getAt returns the revision at which to read the object.
func (q *request) getAt(revision string) (resources.At, error) {
	switch revision {
	case "":
		return resources.At{Match: resources.MostRecent}, nil
	case "0":
		return resources.At{Match: resources.Any}, nil
	}
	rv, err := resources.RevisionOfParameter(revision)
	if err != nil && q.served.Uncached {
		return resources.At{}, apierrors.NewBadRequest("invalid resource version: " + err.Error())
	}
	return resources.At{Match: resources.NotOlderThan, Revision: rv}, err
}

// projected writes an object as a subresource of another kind.
func (q *request) projected(code int, f codec.Format, o *resources.Object, show func(parent runtime.Object) (runtime.Object, error)) error {
	parent, err := q.served.DecodeHubInContext(q.ctx, o)
	if err != nil {
		return err
	}
	sub, err := show(parent)
	if err != nil {
		return err
	}
	return q.ofSubresource(code, f, o.Key, o.Revision, sub)
}

// ofSubresource writes an object of a subresource's kind, which is not the type's.
func (q *request) ofSubresource(code int, f codec.Format, key resources.Key, revision int64, sub runtime.Object) error {
	data, err := q.projectedJSON(sub)
	if err != nil {
		return err
	}
	made := resources.LoadObject(key, revision, data, nil, nil)
	if data, err = codec.NewRenderer(q.projectedType(), f).Object(made); err != nil {
		return err
	}
	q.auditAnswer(f, func(f codec.Format) ([]byte, error) { return codec.NewRenderer(q.projectedType(), f).Object(made) })
	return q.bytes(code, f, data)
}

// projectedType returns the type that a subresource's kind would have if it were stored.
func (q *request) projectedType() *resources.Served {
	empty := func() runtime.Object {
		obj, err := q.newHub()
		if q.defined() { // in kube-apiserver it has no internal version there
			obj, err = q.served.Scheme.New(q.kind)
		}
		if err != nil {
			panic(err) // cannot happen: the kind was decoded or projected before
		}
		return obj
	}
	t := &resources.Type{GroupResource: q.served.GroupResource, Kind: q.kind.Kind, Scheme: q.served.Scheme,
		StorageVersion: q.kind.GroupVersion(), New: empty, NewList: empty,
		Table: q.served.Table, TableTimeDependent: true}
	if q.sub.Table != nil {
		t.Table = q.sub.Table
	}
	return &resources.Served{Type: t, GroupVersionKind: q.kind}
}
