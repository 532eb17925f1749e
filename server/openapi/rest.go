package openapi

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-openapi/pkg/common"

	"github.com/rowlock/rowlock/resources"
)

var (
	mediaTypes  = []string{runtime.ContentTypeJSON, runtime.ContentTypeYAML, runtime.ContentTypeProtobuf}
	streamTypes = []string{runtime.ContentTypeJSON + ";stream=watch", runtime.ContentTypeProtobuf + ";stream=watch"}
	listTypes   = slices.Concat(mediaTypes, streamTypes)
	patchTypes  = []string{
		string(types.JSONPatchType), string(types.MergePatchType), string(types.StrategicMergePatchType),
		string(types.ApplyYAMLPatchType),
	}
	anyType = []string{"*/*"}
)

// endpoint is a resource or a subresource, with its operations.
type endpoint struct {
	// parent is the resource, or that of the subresource.
	parent *resources.Served
	// noun is the kind of the parent, which is part of operation names.
	noun string
	// subresource is its name, empty for a resource.
	subresource string
	verbs       []string
	// kind is the kind of the endpoint's objects, and object a sample of it.
	kind   schema.GroupVersionKind
	object any
	// root is the path of the group version; resource and item are the paths of the collection and of one object.
	root, resource, item string
	// scope are the parameters of resource, and named those of item, which has one more.
	scope, named []common.Parameter
	routes       []common.Route
}

// versionRoutes returns all operations of a group version.
func versionRoutes(v *resources.Version) (*routes, error) {
	all := &routes{root: versionPath(v.GroupVersion)}
	if !onlyUntyped(v) {
		all.list = append(all.list, discoveryRoute(all.root, "getAPIResources", "get available resources", metav1.APIResourceList{}))
	}
	for _, s := range v.Resources {
		rs, err := resourceRoutes(s)
		if err != nil {
			return nil, fmt.Errorf("describe %s: %w", s.GVR(), err)
		}
		all.list = append(all.list, rs...)
		if s.Untyped {
			all.untyped = append(all.untyped, s)
		}
	}
	return all, nil
}

// onlyUntyped tells whether the version has only custom resources. As in kube-apiserver, no document then has its discovery.
func onlyUntyped(v *resources.Version) bool {
	return len(v.Resources) > 0 && !slices.ContainsFunc(v.Resources, func(s *resources.Served) bool { return !s.Untyped })
}

func versionPath(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.Group + "/" + gv.Version
}

// resourceRoutes returns the operations of a resource and its subresources.
func resourceRoutes(s *resources.Served) ([]common.Route, error) {
	if s.Untyped {
		return untypedRoutes(s), nil
	}
	main, err := newEndpoint(s, "", s.GroupVersionKind, s.Verbs())
	if err != nil {
		return nil, err
	}
	if err := main.addCollection(); err != nil {
		return nil, err
	}
	main.addItem()
	all := main.routes
	for _, sub := range s.Subresources {
		kind := sub.Kind
		if kind.Empty() {
			kind = s.GroupVersionKind
		}
		e, err := newEndpoint(s, sub.Name, kind, sub.Verbs)
		if err != nil {
			return nil, err
		}
		switch {
		case isStream(sub):
			e.addStream()
		case isLog(s, sub):
			err = e.addLog()
		default:
			e.addItem()
		}
		if err != nil {
			return nil, err
		}
		all = append(all, e.routes...)
	}
	return all, nil
}

func newEndpoint(s *resources.Served, subresource string, kind schema.GroupVersionKind, verbs []string) (*endpoint, error) {
	object, err := s.Scheme.New(kind)
	if err != nil {
		return nil, err
	}
	e := &endpoint{
		parent: s, noun: s.Type.Kind, subresource: subresource, verbs: verbs, kind: kind, object: object,
		root: versionPath(s.GroupVersion()),
	}
	scope := "/"
	if s.Namespaced {
		scope = "/namespaces/{namespace}/"
		e.scope = []common.Parameter{pathParameter("namespace", "object name and auth scope, such as for teams and projects")}
	}
	e.resource = scope + s.Resource
	e.item = e.resource + "/{name}"
	e.named = append(slices.Clone(e.scope), pathParameter("name", "name of the "+kind.Kind))
	if subresource != "" {
		e.item += "/" + subresource
	}
	return e, nil
}

func (e *endpoint) has(verb string) bool { return slices.Contains(e.verbs, verb) }

// add completes a route with the common properties of the endpoint's operations. verb and suffix are the parts of the operation's name around the
// kind.
func (e *endpoint) add(verb, suffix string, r route, parameters ...[]common.Parameter) {
	namespaced := ""
	if e.parent.Namespaced && strings.Contains(r.path, "{namespace}") {
		namespaced = "Namespaced"
	}
	r.operation = verb + namespaced + e.noun + title(e.subresource) + suffix
	r.path = e.root + r.path
	r.kind = e.kind
	r.parameters = append(r.parameters, slices.Concat(parameters...)...)
	if r.consumes == nil {
		r.consumes = anyType
	}
	e.routes = append(e.routes, &r)
}

// addCollection adds the operations on all objects of a resource, and the deprecated watches.
func (e *endpoint) addCollection() error {
	if e.has("create") {
		e.add("create", "", route{
			method: http.MethodPost, path: e.resource, action: "post", description: "create " + article(e.noun) + e.noun,
			produces: mediaTypes, body: e.object, result: e.object,
			codes: []int{http.StatusOK, http.StatusCreated, http.StatusAccepted},
		}, e.writing(e.scope, &metav1.CreateOptions{}))
	}
	if e.has("deletecollection") {
		e.add("deletecollection", "", route{
			method: http.MethodDelete, path: e.resource, action: "deletecollection", description: "delete collection of " + e.noun,
			produces: mediaTypes, body: metav1.DeleteOptions{}, result: metav1.Status{}, codes: []int{http.StatusOK},
		}, []common.Parameter{prettyParameter, bodyParameter(false)}, e.scope, queryParameters(&metav1.DeleteOptions{}),
			queryParameters(&metav1.ListOptions{}, "watch", "allowWatchBookmarks"))
	}
	if !e.has("list") {
		return nil
	}
	list, err := e.parent.Scheme.New(e.kind.GroupVersion().WithKind(e.noun + "List"))
	if err != nil {
		return err
	}
	e.addList(list, e.resource, "", e.scope)
	if e.parent.Namespaced {
		e.addList(list, "/"+e.parent.Resource, "ForAllNamespaces", nil)
	}
	return nil
}

func (e *endpoint) addList(list any, path, suffix string, scope []common.Parameter) {
	parameters := append([]common.Parameter{prettyParameter}, queryParameters(&metav1.ListOptions{})...)
	description := "list objects of kind " + e.noun
	if e.has("watch") {
		description = "list or watch objects of kind " + e.noun
	}
	e.add("list", suffix, route{
		method: http.MethodGet, path: path, action: "list", description: description,
		produces: listTypes, result: list, codes: []int{http.StatusOK},
	}, scope, parameters)
	if e.has("watch") {
		e.add("watch", "List"+suffix, route{
			method: http.MethodGet, path: "/watch" + path, action: "watchlist",
			description: "watch individual changes to a list of " + e.noun +
				". deprecated: use the 'watch' parameter with a list operation instead.",
			produces: listTypes, result: metav1.WatchEvent{}, codes: []int{http.StatusOK},
		}, scope, parameters)
	}
}

// addItem adds the operations on one object, or on a subresource.
func (e *endpoint) addItem() {
	specified := e.of("the specified " + e.noun)
	if e.has("get") {
		e.add("read", "", route{
			method: http.MethodGet, path: e.item, action: "get", description: "read " + specified,
			produces: mediaTypes, result: e.object, codes: []int{http.StatusOK},
		}, e.named, []common.Parameter{prettyParameter})
	}
	if e.has("update") {
		e.add("replace", "", route{
			method: http.MethodPut, path: e.item, action: "put", description: "replace " + specified,
			produces: mediaTypes, body: e.object, result: e.object, codes: []int{http.StatusOK, http.StatusCreated},
		}, e.writing(e.named, &metav1.UpdateOptions{}))
	}
	if e.has("patch") {
		e.add("patch", "", route{
			method: http.MethodPatch, path: e.item, action: "patch", description: "partially update " + specified,
			consumes: patchTypes, produces: mediaTypes, body: metav1.Patch{}, result: e.object,
			codes: []int{http.StatusOK, http.StatusCreated},
		}, e.writing(e.named, &metav1.PatchOptions{}))
	}
	if e.has("create") && e.subresource != "" {
		e.add("create", "", route{
			method: http.MethodPost, path: e.item, action: "post",
			description: "create " + e.of(article(e.noun)+e.noun),
			produces:    mediaTypes, body: e.object, result: e.object,
			codes: []int{http.StatusOK, http.StatusCreated, http.StatusAccepted},
		}, e.writing(e.named, &metav1.CreateOptions{}))
	}
	if e.has("delete") {
		e.addDelete()
	}
	if e.has("watch") {
		e.add("watch", "", route{
			method: http.MethodGet, path: "/watch" + e.item, action: "watch",
			description: "watch changes to an object of kind " + e.noun + ". deprecated: use the 'watch' parameter " +
				"with a list operation instead, filtered to a single item with the 'fieldSelector' parameter.",
			produces: listTypes, result: metav1.WatchEvent{}, codes: []int{http.StatusOK},
		}, e.named, []common.Parameter{prettyParameter}, queryParameters(&metav1.ListOptions{}))
	}
}

func (e *endpoint) addDelete() {
	var result any = metav1.Status{}
	// Deleting a Namespace returns it, too, but upstream's documents do not say so.
	if e.parent.ReturnsDeleted() && e.noun != "Namespace" {
		result = e.object
	}
	e.add("delete", "", route{
		method: http.MethodDelete, path: e.item, action: "delete",
		description: "delete " + article(e.noun) + e.noun,
		produces:    mediaTypes, body: metav1.DeleteOptions{}, result: result,
		codes: []int{http.StatusOK, http.StatusAccepted},
	}, []common.Parameter{prettyParameter, bodyParameter(false)}, e.named, queryParameters(&metav1.DeleteOptions{}))
}

// writing returns the parameters of an operation with an object in its body.
func (e *endpoint) writing(scope []common.Parameter, options any) []common.Parameter {
	return slices.Concat([]common.Parameter{prettyParameter, bodyParameter(true)}, scope, queryParameters(options))
}

// of prefixes the object of an operation with the subresource.
func (e *endpoint) of(what string) string {
	if e.subresource == "" {
		return what
	}
	return e.subresource + " of " + what
}

// article returns the article for a noun; plurals have none.
func article(noun string) string {
	switch {
	case strings.HasSuffix(noun, "s") && !strings.HasSuffix(noun, "ss"):
		return ""
	case strings.ContainsRune("AEIOUaeiou", rune(noun[0])):
		return "an "
	default:
		return "a "
	}
}
