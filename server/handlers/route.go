package handlers

import (
	"context"
	"errors"
	"net/http"
	"path"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/requestctx"
	"github.com/rowlock/rowlock/server/status"
)

// route finds the type and subresource that a path means, and whether it takes the method.
func (h *Handlers) route(w http.ResponseWriter, r *http.Request, info *genericapirequest.RequestInfo) (*request, error) {
	catalog := h.Registry.CatalogOf(r.Context())
	if _, ok := catalog.Group(info.APIGroup); !ok || info.APIGroup == "" && info.APIPrefix == "apis" {
		return nil, ErrNoSuchGroup
	}
	gvr := schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}
	served, ok := catalog.Lookup(gvr)
	if !ok {
		if g, _ := catalog.Group(info.APIGroup); g.Defined() {
			return nil, ErrNoSuchGroup // nobody answers for the group as a whole
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
		return nil, status.NotFound()
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

// singular is the verb of a request for one object where that of a path without its name is another.
func singular(verb string) string {
	if verb == "list" {
		return "get"
	}
	return verb
}

// noSubresource is the answer for a subresource that there is not. kube-apiserver says of a custom resource that the object is
// not there.
func noSubresource(info *genericapirequest.RequestInfo, served *resources.Served) error {
	if served.Untyped {
		return apierrors.NewNotFound(served.GroupResource, info.Name)
	}
	return status.NotFound()
}

// leadsNowhere tells whether a path is none of the type's ("Resource URIs" of the API concepts page): in a namespace
// where the type is in none or the other way round, below a type that is only created, or too long.
func leadsNowhere(info *genericapirequest.RequestInfo, served *resources.Served) bool {
	named := len(info.Parts) > 1
	inNamespace := info.Namespace != ""
	unnamed := inUnnamed(info)
	ofNamespace := info.Resource == "namespaces" && info.Subresource != ""
	if info.Resource == "namespaces" {
		inNamespace = inNamespace && info.Namespace != info.Name // its own path reads as if it were within itself
	}
	switch {
	case (inNamespace || unnamed && !ofNamespace) && !served.Namespaced, served.Namespaced && !inNamespace && !unnamed && (named || served.Virtual != nil),
		served.Virtual != nil && named, info.Verb == "proxy", unwatched(info, served):
		return true
	}
	return len(info.Parts) > 3 && (info.Subresource == "" || !takesPath(served, info.Subresource))
}

// inUnnamed tells whether a path is within a namespace that has no name: it is a path, and what it lacks is found out by what looks for
// the object. Slashes at the end are no part of a path.
func inUnnamed(info *genericapirequest.RequestInfo) bool {
	below, ok := strings.CutPrefix(strings.TrimRight(info.Path, "/"), "/"+path.Join(info.APIPrefix, info.APIGroup, info.APIVersion))
	return ok && strings.HasPrefix(strings.TrimPrefix(below, "/watch"), "/namespaces//")
}

// leadsToNone is what is wrong with a path of a type that is defined by an object, where anything is: kube-apiserver has another
// way of looking at those: what follows a subresource in a path is not looked at.
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

// unwatched tells whether a path of the old form /watch/… is of a type that has no watches, or below an object.
func unwatched(info *genericapirequest.RequestInfo, served *resources.Served) bool {
	none := info.Subresource != "" || !slices.Contains(served.Verbs(), "watch")
	return none && info.Verb == "watch" && strings.Contains(info.Path, "/"+info.APIVersion+"/watch/")
}

// takesPath tells whether a subresource takes a path below it, as proxies do.
func takesPath(s *resources.Served, name string) bool {
	return name == "proxy" && s.Subresources[name] != nil
}

// laterTypes is the request once more, with the types as they are now, where it was refused because of types that are others by
// now: there was none of the name, a write was computed by rules that have changed, or refused by a definition that has, or somebody was
// asked for a conversion by one. Otherwise it returns why the request was refused, or that the store cannot tell.
func (h *Handlers) laterTypes(r *http.Request, q *request, info *genericapirequest.RequestInfo, refused error) (*http.Request, error) {
	var expected *resources.ExpectationError
	var unconverted *resources.ConversionError
	switch {
	case h.Definitions == nil, q != nil && q.served.Requires == nil:
		return nil, refused
	case q == nil: // no such path
	case errors.Is(refused, errOtherTypes), errors.As(refused, &expected),
		apierrors.IsInvalid(refused), apierrors.IsBadRequest(refused), apierrors.IsForbidden(refused):
	case errors.As(refused, &unconverted) && !q.written: // it need not be asked any more, perhaps
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
	return r.WithContext(resources.WithCatalog(r.Context(), now)), nil
}

// unresolved is why there is no such path: of a definition that cannot be served, kube-apiserver says that something is wrong, for the
// paths that its objects would have. Otherwise it is what it was.
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

// Warnings are those that a request has been answered with so far.
type Warnings interface {
	// Forget takes them back: the request is answered once more, by other types.
	Forget()
}

type warningsKey struct{}

// WithWarnings is the context of a request with its warnings.
func WithWarnings(ctx context.Context, w Warnings) context.Context {
	return requestctx.Set(ctx, warningsKey{}, w)
}

// errOtherTypes: while a request was being answered, its type has become another.
var errOtherTypes = errors.New("the type is another one by now")

// outdated tells whether the type of a request, of which objects were read, is no longer the one that they are to be shown by: what
// they show was written by a later definition, perhaps.
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

// storedType is the type by which objects are deleted: that of the version that they are stored in, so that nothing has to be
// converted, which somebody else does.
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

// unwritten tells the same where nothing was written, which has asked nobody whether the rules are still the right ones: of a dry
// run, or of what changes nothing.
func (h *Handlers) unwritten(q *request) error {
	if h.Definitions == nil || q.served.Requires == nil {
		return nil
	}
	if err := h.Definitions.Latest(q.ctx); err != nil {
		return err
	}
	return h.outdated(q)
}
