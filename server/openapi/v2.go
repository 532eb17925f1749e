package openapi

import (
	"net/http"

	openapiv2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
	"k8s.io/kube-openapi/pkg/builder"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/rowlock/rowlock/resources"
)

var formatV2 = &format{nameV2, buildV2, protobufV2}

// buildV2 builds the JSON of the document of OpenAPI 2.
func buildV2(s *source, all []*routes) ([]byte, error) {
	definitions, err := s.definitions(definitionsV2, nil)
	if err != nil {
		return nil, err
	}
	containers := make([]common.RouteContainer, 0, len(all))
	for _, r := range all {
		containers = append(containers, r)
		for _, u := range r.untyped {
			if err := addUntyped(definitions, u, definitionsV2); err != nil {
				return nil, err
			}
		}
	}
	swagger, err := builder.BuildOpenAPISpecFromRoutes(containers, s.configV2(definitions))
	if err != nil {
		return nil, err
	}
	// Clients of this version take a default as a reason to send the field.
	swagger.Definitions = handler.PruneDefaults(swagger.Definitions)
	return swagger.MarshalJSON()
}

func (s *source) configV2(definitions map[string]common.OpenAPIDefinition) *common.Config {
	return &common.Config{
		ProtocolList: []string{"https"},
		Info:         info(),
		CommonResponses: map[int]spec.Response{
			http.StatusUnauthorized: {ResponseProps: spec.ResponseProps{Description: unauthorized}},
		},
		GetDefinitions: func(common.ReferenceCallback) map[string]common.OpenAPIDefinition { return definitions },
		GetDefinitionName: func(model string) (string, spec.Extensions) {
			return s.name(model, nil)
		},
		GetOperationIDAndTagsFromRoute: operationID,
		SecurityDefinitions:            &spec.SecurityDefinitions{tokenSchemeName: tokenScheme()},
		DefaultSecurity:                []map[string][]string{{tokenSchemeName: {}}},
	}
}

// allRoutes returns the operations of everything that is served. Versions with only custom resources are included if untyped is set.
func allRoutes(groups []*resources.Group, untyped bool) ([]*routes, error) {
	all := fixedRoutes()
	for _, g := range groups {
		if describesGroup(g) {
			all = append(all, groupRoutes(g))
		}
		for _, v := range g.Versions {
			if !untyped && onlyUntyped(v) {
				continue
			}
			r, err := versionRoutes(v)
			if err != nil {
				return nil, err
			}
			all = append(all, r)
		}
	}
	return all, nil
}

// protobufV2 converts the document to protobuf.
func protobufV2(json []byte) ([]byte, error) {
	doc, err := openapiv2.ParseDocument(json)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(doc)
}
