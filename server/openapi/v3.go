package openapi

import (
	"encoding/json"
	"net/http"
	"net/url"
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
)

var formatV3 = &format{"v3", buildV3, protobufV3}

// buildV3 makes the JSON of one document of OpenAPI 3.
func buildV3(s *source, all []*routes) ([]byte, error) {
	definitions, err := s.definitionsV3()
	if err != nil {
		return nil, err
	}
	r := all[0]
	doc, err := builder3.BuildOpenAPISpecFromRoutes([]common.RouteContainer{r}, s.configV3(r.root, definitions))
	if err != nil {
		return nil, err
	}
	return json.Marshal(doc)
}

func (s *source) configV3(root string, definitions map[string]common.OpenAPIDefinition) *common.OpenAPIV3Config {
	token := tokenScheme()
	return &common.OpenAPIV3Config{
		Info: info(),
		CommonResponses: map[int]*spec3.Response{
			http.StatusUnauthorized: {ResponseProps: spec3.ResponseProps{Description: unauthorized}},
		},
		Definitions: definitions,
		GetDefinitionName: func(model string) (string, spec.Extensions) {
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
}

// tellsKind says whether a definition in the document of a root names a kind it is registered as. Two kinds are
// registered in every group version: of these a document names its own and that of the core group.
func tellsKind(root string, k schema.GroupVersionKind) bool {
	if k.Kind != "DeleteOptions" && k.Kind != metav1.WatchEventKind {
		return true
	}
	return k.GroupVersion() == metav1.Unversioned || versionPath(k.GroupVersion()) == root
}

// groupRoutes is the operation of a group: its document of discovery.
func groupRoutes(g *resources.Group) *routes {
	root := "/apis/" + g.Name
	return &routes{root: root, list: []common.Route{
		discoveryRoute(root, "getAPIGroup", "get information of a group", metav1.APIGroup{}),
	}}
}

// protobufV3 is the second encoding of a document, made of the first.
func protobufV3(json []byte) ([]byte, error) {
	doc, err := openapiv3.ParseDocument(json)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(doc)
}

// index is the document at /openapi/v3.
type index struct {
	Paths map[string]indexEntry `json:"paths"`
}

type indexEntry struct {
	ServerRelativeURL string `json:"serverRelativeURL"`
}

// hashedURL is the address of one state of a document: what it answers never changes.
func hashedURL(name, hash string) string {
	u := url.URL{Path: pathV3 + "/" + strings.TrimPrefix(name, "/"), RawQuery: url.Values{"hash": {hash}}.Encode()}
	return u.String()
}
