package openapi

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	openapiv3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/builder3"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fastpath"
)

var formatV3 = &format{"v3", buildV3, protobufV3}

// buildV3 builds the JSON of a document of OpenAPI 3.
func buildV3(s *source, all []*routes) ([]byte, error) {
	r := all[0]
	if r.onlyUntyped() && fastpath.OpenAPI.On() {
		if text, ok, err := s.wordV3(r); ok || err != nil {
			return text, err
		}
		fastpath.OpenAPI.Fallback()
	}
	definitions, err := s.definitionsOf(r)
	if err != nil {
		return nil, err
	}
	return s.builtV3(r, definitions)
}

// builtV3 builds a document with kube-openapi.
func (s *source) builtV3(r *routes, definitions map[string]common.OpenAPIDefinition) ([]byte, error) {
	doc, err := builder3.BuildOpenAPISpecFromRoutes([]common.RouteContainer{r}, s.configV3(r.root, r.onlyUntyped(), definitions))
	if err != nil {
		return nil, err
	}
	return json.Marshal(doc)
}

// definitionsOf returns the definitions that a document may need.
func (s *source) definitionsOf(r *routes) (definitions map[string]common.OpenAPIDefinition, err error) {
	if r.onlyUntyped() {
		definitions, err = s.fewDefinitions()
	} else {
		definitions, err = s.definitionsV3()
	}
	if err != nil {
		return nil, err
	}
	for _, u := range r.untyped {
		if err := addUntyped(definitions, u, definitionsV3); err != nil {
			return nil, err
		}
	}
	return definitions, nil
}

// onlyUntyped tells whether all operations are those of custom resources.
func (r *routes) onlyUntyped() bool {
	return len(r.untyped) > 0 && !slices.ContainsFunc(r.list, func(op common.Route) bool { return !op.(*route).untyped })
}

// configV3 configures the builder. untyped says that the document has only custom resources. Its definitions then list the kinds known to clients,
// as kube-apiserver's do.
func (s *source) configV3(root string, untyped bool, definitions map[string]common.OpenAPIDefinition) *common.OpenAPIV3Config {
	token := tokenScheme()
	config := &common.OpenAPIV3Config{
		Info: info(),
		CommonResponses: map[int]*spec3.Response{
			http.StatusUnauthorized: {ResponseProps: spec3.ResponseProps{Description: unauthorized}},
		},
		Definitions: definitions,
		GetDefinitionName: func(model string) (string, spec.Extensions) {
			if untyped {
				return s.name(model, clientsKnow)
			}
			return s.name(model, func(k schema.GroupVersionKind) bool { return tellsKind(root, k) })
		},
		GetOperationIDAndTagsFromRoute: operationID,
		SecuritySchemes: spec3.SecuritySchemes{
			tokenSchemeName: {SecuritySchemeProps: spec3.SecuritySchemeProps{
				Type: token.Type, Description: token.Description, Name: token.Name, In: token.In,
			}},
		},
		DefaultSecurity: []map[string][]string{{tokenSchemeName: {}}},
	}
	if untyped {
		config.Info = &spec.Info{InfoProps: spec.InfoProps{Title: "Kubernetes CRD Swagger", Version: "v0.1.0"}}
		config.SecuritySchemes, config.DefaultSecurity = nil, nil
	}
	return config
}

// tellsKind tells whether a definition in the document of a root lists a kind it is registered as. Two kinds are registered in every group version:
// a document lists only its own and that of the core group.
func tellsKind(root string, k schema.GroupVersionKind) bool {
	if k.Kind != "DeleteOptions" && k.Kind != metav1.WatchEventKind {
		return true
	}
	return k.GroupVersion() == metav1.Unversioned || versionPath(k.GroupVersion()) == root
}

// clientsKnow tells whether client-go's scheme has the group of a kind: it has all built-in groups except these.
func clientsKnow(k schema.GroupVersionKind) bool {
	switch k.Group {
	case "admission.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "imagepolicy.k8s.io":
		return false
	}
	return true
}

// describesGroup tells whether the documents have the discovery of a group. They do not if the group has only custom resources.
func describesGroup(g *resources.Group) bool {
	return g.Name != "" && (len(g.Versions) == 0 || slices.ContainsFunc(g.Versions, func(v *resources.Version) bool { return !onlyUntyped(v) }))
}

// groupRoutes returns the operation of a group: its discovery document.
func groupRoutes(g *resources.Group) *routes {
	root := "/apis/" + g.Name
	return &routes{root: root, list: []common.Route{
		discoveryRoute(root, "getAPIGroup", "get information of a group", metav1.APIGroup{}),
	}}
}

// protobufV3 converts a document to protobuf.
func protobufV3(json []byte) ([]byte, error) {
	doc, err := openapiv3.ParseDocument(json)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(doc)
}

// indexEntry is the URL of a document in the index at /openapi/v3, whose paths are the names of documents.
type indexEntry struct {
	ServerRelativeURL string `json:"serverRelativeURL"`
}

// hashedURL is the URL of one state of a document: its response never changes.
func hashedURL(name, hash string) string {
	u := url.URL{Path: pathV3 + "/" + strings.TrimPrefix(name, "/"), RawQuery: url.Values{"hash": {hash}}.Encode()}
	return u.String()
}
