package handlers

import (
	"context"
	"errors"
	"net/http"
	"path"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/requestctx"
	"github.com/rowlock/rowlock/server/status"
)

// route finds the type and subresource of a path, and checks that the path takes the method.
func (h *Handlers) route(w http.ResponseWriter, r *http.Request, info *genericapirequest.RequestInfo) (*request, error) {
	catalog := h.Registry.CatalogOf(r.Context())
	if _, ok := catalog.Group(info.APIGroup); !ok || info.APIGroup == "" && info.APIPrefix == "apis" {
		return nil, ErrNoSuchGroup
	}
	gvr := schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}
	served, ok := catalog.Lookup(gvr)
	if !ok {
		if g, _ := catalog.Group(info.APIGroup); g.Defined() {
			return nil, ErrNoSuchGroup // in kube-apiserver no router covers such a group as a whole
		}
		return nil, status.NotFound()
	}
	q := &request{w: w, r: r, ctx: r.Context(), info: info, offer: h.Offer, runs: h.runs, counts: h.counts, found: served, served: served, kind: served.GroupVersionKind}
	if served.Untyped {
		err := q.leadsToNone()
		if !errors.Is(err, ErrNoSuchGroup) {
			warnOf(r.Context(), served)
		}
		if err != nil {
			return nil, err
		}
	} else if leadsNowhere(info, served) {
		return nil, errNowhere
	}
	if info.Subresource != "" {
		if q.sub, ok = served.Subresources[info.Subresource]; !ok {
			return nil, noSubresource(info, served)
		}
		if !q.sub.Kind.Empty() {
			q.kind = q.sub.Kind
		}
		if info.Name == "" && !served.Untyped && q.sub.HasVerb(singular(info.Verb)) {
			return nil, apierrors.NewBadRequest("name must be provided")
		}
	}
	if !q.allowed() {
		if q.defined() {
			return nil, apierrors.NewMethodNotSupported(q.resource(), info.Verb)
		}
		return nil, status.MethodNotAllowed()
	}
	return q, nil
}

// singular returns the verb for one object, where the verb of a path without a name is another.
func singular(verb string) string {
	if verb == "list" {
		return "get"
	}
	return verb
}

// noSubresource is the error for an unknown subresource. For a custom resource, kube-apiserver reports that the object is not found.
func noSubresource(info *genericapirequest.RequestInfo, served *resources.Served) error {
	if served.Untyped {
		return apierrors.NewNotFound(served.GroupResource, info.Name)
	}
	return status.NotFound()
}

// errNowhere is the error of leadsNowhere.
var errNowhere = status.NotFound()

// leadsNowhere tells whether a path is not one of the type's ("Resource URIs" of the API concepts page): it has a namespace and the type is
// cluster-scoped or the other way round, it is below a type that can only be created, or it is too long.
func leadsNowhere(info *genericapirequest.RequestInfo, served *resources.Served) bool {
	named := len(info.Parts) > 1
	inNamespace := info.Namespace != ""
	unnamed := inUnnamed(info)
	ofNamespace := info.Resource == "namespaces" && info.Subresource != ""
	if info.Resource == "namespaces" {
		inNamespace = inNamespace && info.Namespace != info.Name // the path of a namespace parses as if the namespace were within itself
	}
	switch {
	case (inNamespace || unnamed && !ofNamespace) && !served.Namespaced, served.Namespaced && !inNamespace && !unnamed && (named || served.Virtual != nil),
		served.Virtual != nil && named, info.Verb == "proxy", unwatched(info, served):
		return true
	}
	return len(info.Parts) > 3 && (info.Subresource == "" || !takesPath(served, info.Subresource))
}

// inUnnamed tells whether a path has an empty namespace. Such a path is valid; the lookup of the object reports the missing namespace. Trailing
// slashes do not count.
func inUnnamed(info *genericapirequest.RequestInfo) bool {
	below, ok := strings.CutPrefix(strings.TrimRight(info.Path, "/"), "/"+path.Join(info.APIPrefix, info.APIGroup, info.APIVersion))
	return ok && strings.HasPrefix(strings.TrimPrefix(below, "/watch"), "/namespaces//")
}

// leadsToNone returns the error of an invalid path of a custom resource. kube-apiserver checks these differently: it ignores path elements after a
// subresource.
func (q *request) leadsToNone() error {
	info, served := q.info, q.served
	across := info.Verb == "list" || info.Verb == "watch"
	switch {
	case info.Namespace != "" && !served.Namespaced, info.Namespace == "" && served.Namespaced && !across:
		return ErrNoSuchGroup
	case info.Name == "" && info.Verb == "patch" && !q.takesPatch(q.patchType()):
		return q.unknownPatch()
	case info.Name == "" && (info.Verb == "update" || info.Verb == "patch"):
		return apierrors.NewBadRequest("name must be provided")
	}
	return nil
}

// unwatched tells whether a legacy path /watch/… is for a type without watches, or below an object.
func unwatched(info *genericapirequest.RequestInfo, served *resources.Served) bool {
	none := info.Subresource != "" || !slices.Contains(served.Verbs(), "watch")
	return none && info.Verb == "watch" && strings.Contains(info.Path, "/"+info.APIVersion+"/watch/")
}

// takesPath tells whether a subresource takes a path below it, as proxy does.
func takesPath(s *resources.Served, name string) bool {
	return name == "proxy" && s.Subresources[name] != nil
}

// laterTypes returns the request for another attempt with the current types, if it was rejected because of types that have changed since: the type
// did not exist, a write was computed by outdated rules or rejected by an outdated definition (also with a 500, or a conflict of an apply), or a
// conversion used an outdated one. Otherwise it returns the error of the request, or that of the store.
func (h *Handlers) laterTypes(r *http.Request, q *request, info *genericapirequest.RequestInfo, refused error) (*http.Request, error) {
	var expected *resources.ExpectationError
	var unconverted *resources.ConversionError
	switch {
	case h.Definitions == nil, q != nil && q.served.Requires == nil:
		return nil, refused
	case q == nil: // no such path
	case errors.Is(refused, errOtherTypes), errors.As(refused, &expected),
		apierrors.IsInvalid(refused), apierrors.IsBadRequest(refused), apierrors.IsForbidden(refused):
	case q.written:
		return nil, refused
	case errors.As(refused, &unconverted): // perhaps the conversion is no longer needed
	case errors.As(refused, new(*status.OfRequest)), h.fails(refused, q): // an unknown field, for one
	default:
		return nil, refused
	}
	if err := h.Definitions.Latest(r.Context()); err != nil {
		if q == nil {
			return nil, err
		}
		return nil, refused
	}
	before, now := h.Registry.CatalogOf(r.Context()), h.Registry.Catalog()
	gvr := schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}
	was, _ := before.Lookup(gvr)
	is, _ := now.Lookup(gvr)
	if was == is {
		return nil, h.unresolved(info, gvr, is != nil, refused)
	}
	if w, ok := r.Context().Value(warningsKey{}).(Warnings); ok {
		w.Forget()
	}
	resources.ReleaseCatalog(r.Context()) // the new context still has the old one as its parent
	return r.WithContext(resources.WithCatalog(r.Context(), now)), nil
}

// fails tells whether an error is answered as one of the server, and is not that of a store that cannot be reached or has no room.
func (h *Handlers) fails(err error, q *request) bool {
	s := status.Of(h.storeError(err, q))
	return s.Code == http.StatusInternalServerError && s.Reason != metav1.StatusReasonServerTimeout
}

// unresolved returns the error for a path without a type. If a definition of that resource cannot be served, kube-apiserver answers the paths of
// its objects with an internal error. Otherwise refused stays.
func (h *Handlers) unresolved(info *genericapirequest.RequestInfo, gvr schema.GroupVersionResource, served bool, refused error) error {
	if served {
		return refused
	}
	broken, namespaced := h.Definitions.Broken(gvr)
	across := info.Verb == "list" || info.Verb == "watch"
	if !broken || info.Namespace != "" && !namespaced || info.Namespace == "" && namespaced && !across {
		return refused
	}
	return apierrors.NewInternalError(errors.New("error resolving resource"))
}

// Warnings are the warnings of a response so far.
type Warnings interface {
	// Forget drops them, because the request is answered again with other types.
	Forget()
}

type warningsKey struct{}

// WithWarnings adds the warnings of a request to its context.
func WithWarnings(ctx context.Context, w Warnings) context.Context {
	return requestctx.Set(ctx, warningsKey{}, w)
}

// errOtherTypes says that the type of a request changed while the request was being answered.
var errOtherTypes = errors.New("the type is another one by now")

// outdated returns errOtherTypes if the type of a read is no longer current: objects that it has read may have been written under a later
// definition.
func (h *Handlers) outdated(q *request) error {
	if h.Definitions == nil || q.served.Requires == nil {
		return nil
	}
	if err := h.Definitions.Seen(q.ctx); err != nil {
		return err
	}
	if is, _ := h.Registry.Catalog().Lookup(q.found.GVR()); is == q.found {
		return nil
	}
	return errOtherTypes
}

// storedType returns the type for deletions: that of the storage version, so that no conversion webhook is called.
func (h *Handlers) storedType(q *request) *resources.Type {
	if !q.served.Untyped {
		return q.served.Type
	}
	if h.Definitions != nil {
		if t, ok := h.Definitions.StoredType(q.served.ResourceName()); ok {
			return t
		}
	}
	return q.served.Type
}

// unwritten is outdated for requests that write nothing (a dry run, or an update that changes nothing): no commit has checked their type.
func (h *Handlers) unwritten(q *request) error {
	if h.Definitions == nil || q.served.Requires == nil {
		return nil
	}
	if err := h.Definitions.Latest(q.ctx); err != nil {
		return err
	}
	return h.outdated(q)
}
