package openapi

import (
	"net/http"

	openapiv2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
	"k8s.io/kube-openapi/pkg/builder"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// buildV2 makes the JSON of the one document of OpenAPI 2.
func buildV2(s *source) ([]byte, error) {
	var all []common.RouteContainer
	for _, r := range fixedRoutes() {
		all = append(all, s.encoded(r))
	}
	for _, g := range s.catalog.Groups() {
		if g.Name != "" {
			all = append(all, s.encoded(groupRoutes(g)))
		}
		for _, v := range g.Versions {
			r, err := versionRoutes(v)
			if err != nil {
				return nil, err
			}
			all = append(all, s.encoded(r))
		}
	}
	swagger, err := builder.BuildOpenAPISpecFromRoutes(all, s.configV2())
	if err != nil {
		return nil, err
	}
	// Clients of this version take a default for a reason to send the field.
	swagger.Definitions = handler.PruneDefaults(swagger.Definitions)
	return swagger.MarshalJSON()
}

func (s *source) configV2() *common.Config {
	return &common.Config{
		ProtocolList: []string{"https"},
		Info:         info(),
		CommonResponses: map[int]spec.Response{
			http.StatusUnauthorized: {ResponseProps: spec.ResponseProps{Description: unauthorized}},
		},
		GetDefinitions: func(common.ReferenceCallback) map[string]common.OpenAPIDefinition {
			return definitions(reference("#/definitions/"))
		},
		GetDefinitionName: func(model string) (string, spec.Extensions) {
			return s.name(model, nil)
		},
		GetOperationIDAndTagsFromRoute: operationID,
		SecurityDefinitions:            &spec.SecurityDefinitions{tokenSchemeName: tokenScheme()},
		DefaultSecurity:                []map[string][]string{{tokenSchemeName: {}}},
	}
}

// protobufV2 is the second encoding of the document, made of the first.
func protobufV2(json []byte) ([]byte, error) {
	doc, err := openapiv2.ParseDocument(json)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(doc)
}
