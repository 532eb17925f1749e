package openapi

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/rowlock/rowlock/resources"
)

// Custom resources are described as kube-apiserver's server of custom resources does, with less than built-in types: without deprecated watches and
// without protobuf.

// model represents an object without a Go type in an operation: it is the name of its definition.
type model string

// OpenAPICanonicalTypeName is the method by which the builders of kube-openapi get the name.
func (m model) OpenAPICanonicalTypeName() string { return string(m) }

// modelOf is the name of a kind's definition, in the version of a type: the group in reverse, the version, and the kind.
func modelOf(s *resources.Served, kind string) model {
	group := strings.Split(s.GroupVersionKind.Group, ".")
	slices.Reverse(group)
	return model(strings.Join(append(group, s.GroupVersionKind.Version, kind), "."))
}

var (
	textTypes         = []string{runtime.ContentTypeJSON, runtime.ContentTypeYAML}
	untypedPatchTypes = []string{string(types.JSONPatchType), string(types.MergePatchType), string(types.ApplyYAMLPatchType)}
)

// untypedEndpoint is a path of a custom resource.
type untypedEndpoint struct {
	s                 *resources.Served
	path, subresource string
	parameters        []common.Parameter
	routes            []common.Route
	namesOnly         bool
}

// untypedRoutes returns the operations of a custom resource.
func untypedRoutes(s *resources.Served) []common.Route { return routesOf(s, false) }

// routesOf returns the operations of a custom resource; with namesOnly, without parameters.
func routesOf(s *resources.Served, namesOnly bool) []common.Route {
	object, list := modelOf(s, s.Type.Kind), modelOf(s, s.KindOfLists())
	all := &untypedEndpoint{s: s, path: versionPath(s.GroupVersion()) + "/" + s.Resource, namesOnly: namesOnly}
	if s.Namespaced {
		all.add("list", "ForAllNamespaces", http.MethodGet, "list", &metav1.ListOptions{}, list, 200)
		all.path = versionPath(s.GroupVersion()) + "/namespaces/{namespace}/" + s.Resource
		all.parameters = []common.Parameter{pathParameter("namespace", "object name and auth scope, such as for teams and projects")}
	}
	all.add("list", "", http.MethodGet, "list", &metav1.ListOptions{}, list, 200)
	all.add("create", "", http.MethodPost, "post", &metav1.CreateOptions{}, object, 200, 202, 201)
	all.add("deletecollection", "", http.MethodDelete, "deletecollection", &metav1.ListOptions{}, metav1.Status{}, 200)
	all.path += "/{name}"
	all.parameters = append(all.parameters, pathParameter("name", "name of the "+s.Type.Kind))
	all.addItem(object)
	all.add("delete", "", http.MethodDelete, "delete", &metav1.DeleteOptions{}, metav1.Status{}, 200, 202)
	for _, name := range []string{"status", "scale"} {
		if _, ok := s.Subresources[name]; !ok {
			continue
		}
		sub := &untypedEndpoint{s: s, path: all.path + "/" + name, subresource: name, parameters: all.parameters, namesOnly: namesOnly}
		if name == "scale" {
			sub.addItem(autoscalingv1.Scale{})
		} else {
			sub.addItem(object)
		}
		all.routes = append(all.routes, sub.routes...)
	}
	return all.routes
}

func (e *untypedEndpoint) addItem(object any) {
	e.add("read", "", http.MethodGet, "get", &metav1.GetOptions{}, object, 200)
	e.add("replace", "", http.MethodPut, "put", &metav1.UpdateOptions{}, object, 200, 201)
	e.add("patch", "", http.MethodPatch, "patch", &metav1.PatchOptions{}, object, 200)
}

// add adds an operation. verb and suffix are the parts of its name around the kind.
func (e *untypedEndpoint) add(verb, suffix, method, action string, options, result any, codes ...int) {
	if !e.serves(action) {
		return
	}
	kind := e.s.Type.Kind
	r := &route{method: method, path: e.path, operation: verb, description: e.describe(verb), action: action, kind: e.s.GroupVersionKind,
		untyped: true, consumes: textTypes, produces: textTypes, result: result, codes: codes}
	if e.s.Namespaced && suffix == "" {
		r.operation += "Namespaced"
	}
	r.operation += kind + title(e.subresource) + suffix
	switch verb {
	case "create", "replace":
		r.body = result
	case "patch":
		r.body, r.consumes = metav1.Patch{}, untypedPatchTypes
	case "delete":
		r.body = metav1.DeleteOptions{}
	}
	if !e.namesOnly {
		r.parameters = slices.Concat([]common.Parameter{prettyParameter}, e.parameters, queryParameters(options))
		if r.body != nil {
			r.parameters = append(r.parameters, bodyParameter(verb != "delete"))
		}
	}
	e.routes = append(e.routes, r)
}

// serves tells whether the type supports the verb of an action. Those of CustomResourceDefinitions support all.
func (e *untypedEndpoint) serves(action string) bool {
	switch action {
	case "post":
		action = "create"
	case "put":
		action = "update"
	}
	return slices.Contains(e.s.Verbs(), action)
}

func (e *untypedEndpoint) describe(verb string) string {
	of := ""
	if e.subresource != "" {
		of = " " + e.subresource + " of"
	}
	kind := e.s.Type.Kind
	switch verb {
	case "list":
		return "list objects of kind " + kind
	case "deletecollection":
		return "delete collection of " + kind
	case "create", "delete":
		return verb + " " + article(kind) + kind
	case "patch":
		verb = "partially update"
	}
	return verb + of + " the specified " + kind
}

const (
	metaModels = "io.k8s.apimachinery.pkg.apis.meta.v1."
	objectMeta = metaModels + "ObjectMeta"
	listMeta   = metaModels + "ListMeta"
	statusName = metaModels + "Status"
)

// untypedModels are the definitions that custom resources, their definitions and operations, refer to.
var untypedModels = []string{objectMeta, listMeta, statusName, metaModels + "DeleteOptions", metaModels + "Patch", "io.k8s.api.autoscaling.v1.Scale"}

// addUntyped adds the definitions of a custom resource and its list.
func addUntyped(definitions map[string]common.OpenAPIDefinition, s *resources.Served, prefix string) error {
	object, list := string(modelOf(s, s.Type.Kind)), string(modelOf(s, s.KindOfLists()))
	schema, err := objectSchema(definitions, s, prefix)
	if err != nil {
		return err
	}
	definitions[object] = common.OpenAPIDefinition{Schema: *schema, Dependencies: []string{objectMeta}}
	definitions[list] = common.OpenAPIDefinition{Schema: *listSchema(definitions, s, prefix), Dependencies: []string{object, listMeta}}
	return nil
}

// objectSchema returns the schema of a custom resource. definitions has the untypedModels.
func objectSchema(definitions map[string]common.OpenAPIDefinition, s *resources.Served, prefix string) (*spec.Schema, error) {
	typeMeta := definitions[statusName].Schema.Properties // it has the two fields of every kind
	schema, err := schemaOf(s, prefix)
	if err != nil {
		return nil, fmt.Errorf("schema of %s: %w", s.GVR(), err)
	}
	if schema == nil {
		// A named property would forbid all others, as kubectl reads it.
		schema = new(spec.Schema).Typed("object", "")
	} else {
		describeEmbedded(schema, typeMeta, prefix)
		schema.SetProperty("metadata", *spec.RefSchema(prefix + objectMeta).WithDescription(metav1.PartialObjectMetadata{}.SwaggerDoc()["metadata"]))
		schema.SetProperty("apiVersion", typeMeta["apiVersion"]).SetProperty("kind", typeMeta["kind"])
	}
	return identified(schema, s, s.Type.Kind), nil
}

// listSchema returns the schema of a custom resource's list.
func listSchema(definitions map[string]common.OpenAPIDefinition, s *resources.Served, prefix string) *spec.Schema {
	typeMeta := definitions[statusName].Schema.Properties
	object := string(modelOf(s, s.Type.Kind))
	items := spec.ArrayProperty(spec.RefSchema(prefix + common.EscapeJsonPointer(object))).WithDescription(fmt.Sprintf("List of %s. More info: "+
		"https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md", s.Resource))
	lists := new(spec.Schema).Typed("object", "").WithDescription(s.KindOfLists()+" is a list of "+s.Type.Kind).WithRequired("items").
		SetProperty("items", *items).
		SetProperty("metadata", *spec.RefSchema(prefix + listMeta).WithDescription(metav1.PartialObjectMetadataList{}.SwaggerDoc()["metadata"])).
		SetProperty("apiVersion", typeMeta["apiVersion"]).SetProperty("kind", typeMeta["kind"])
	return identified(lists, s, s.KindOfLists())
}

// identified adds the extensions for the kind and the selectable fields.
func identified(schema *spec.Schema, s *resources.Served, kind string) *spec.Schema {
	schema.AddExtension(extensionKind, []any{map[string]any{"group": s.GroupVersionKind.Group, "version": s.GroupVersionKind.Version, "kind": kind}})
	if fields := selectable(s); fields != nil {
		schema.AddExtension(extensionSelectable, fields)
	}
	return schema
}

func schemaOf(s *resources.Served, prefix string) (*spec.Schema, error) {
	if s.OpenAPI == nil || s.OpenAPI.Schema == nil {
		return nil, nil
	}
	return s.OpenAPI.Schema(prefix == definitionsV2)
}

func selectable(s *resources.Served) (fields []any) {
	if s.OpenAPI == nil {
		return nil
	}
	for _, name := range s.OpenAPI.SelectableFields {
		fields = append(fields, map[string]any{"fieldPath": name})
	}
	return fields
}
