package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	utilopenapi "k8s.io/apiserver/pkg/util/openapi"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/schemamutation"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// These prefixes locate the definitions in documents of each version.
const (
	definitionsV2 = "#/definitions/"
	definitionsV3 = "#/components/schemas/"
)

// Definitions returns upstream's definitions, with references below a prefix, without those of disabled features. Upstream's generated code for
// them takes six megabytes of a binary and is not linked: the archive has them as text. If models are named, the result may be limited to these and
// their dependencies. The caller may add to the map.
type Definitions func(prefix string, models []string) (map[string]common.OpenAPIDefinition, error)

// embedded reads the definitions from the archive; models is untypedModels or nil.
func embedded(prefix string, models []string) (map[string]common.OpenAPIDefinition, error) {
	read := allTexts
	if models != nil {
		read = fewTexts
	}
	texts, err := read()
	if err != nil {
		return nil, err
	}
	if models == nil {
		models = slices.Collect(maps.Keys(texts))
	}
	definitions := make(map[string]common.OpenAPIDefinition, len(models))
	for left := slices.Clone(models); len(left) > 0; {
		name := left[len(left)-1]
		left = left[:len(left)-1]
		text, ok := texts[name]
		if _, done := definitions[name]; done || !ok {
			continue
		}
		left = append(left, text.dependencies...)
		d, err := text.definition(prefix)
		if err != nil {
			return nil, fmt.Errorf("OpenAPI definition %s: %w", name, err)
		}
		definitions[name] = d
	}
	return enabled(definitions), nil
}

func allTexts() (map[string]definitionText, error) {
	found, err := sections(archive, definitionsSection)
	if err != nil {
		return nil, err
	}
	return parseDefinitions(found[definitionsSection])
}

// fewTexts returns the texts of untypedModels and their dependencies. They are cached: reading the archive for each document of a few custom
// resources takes longer than building it.
var fewTexts = sync.OnceValues(func() (map[string]definitionText, error) {
	all, err := allTexts()
	if err != nil {
		return nil, err
	}
	few := map[string]definitionText{}
	for left := slices.Clone(untypedModels); len(left) > 0; {
		name := left[0]
		left = left[1:]
		if text, ok := all[name]; ok && few[name].v3 == "" {
			var dependencies []string
			for _, d := range text.dependencies {
				dependencies = append(dependencies, strings.Clone(d)) // clones, because substrings would retain the whole text
			}
			left = append(left, dependencies...)
			few[name] = definitionText{dependencies, strings.Clone(text.v3), strings.Clone(text.v2)}
		}
	}
	return few, nil
})

// fewDefinitions returns a copy of the definitions of untypedModels for version 3, to which the caller may add. They are cached until the server is
// idle: parsing the texts for each document takes a fifth of the time of the rest. A builder modifies the extensions of its input, and copies
// everything else that it modifies.
func (h *Handler) fewDefinitions() (map[string]common.OpenAPIDefinition, error) {
	kept := h.few.Load()
	if kept == nil {
		read, err := h.definitions(definitionsV3, untypedModels)
		if err != nil {
			return nil, err
		}
		kept = &read
		h.few.Store(kept)
	}
	definitions := make(map[string]common.OpenAPIDefinition, len(*kept)+2)
	for name, d := range *kept {
		d.Schema.Extensions = maps.Clone(d.Schema.Extensions)
		definitions[name] = d
	}
	return definitions, nil
}

// enabled removes the definitions of disabled features.
func enabled(definitions map[string]common.OpenAPIDefinition) map[string]common.OpenAPIDefinition {
	return utilopenapi.GetOpenAPIDefinitionsWithoutDisabledFeatures(func(common.ReferenceCallback) map[string]common.OpenAPIDefinition {
		return definitions
	})(nil)
}

func (t definitionText) definition(prefix string) (common.OpenAPIDefinition, error) {
	wrapped, err := parseSchema(t.v3, prefix)
	if err != nil {
		return common.OpenAPIDefinition{}, err
	}
	d := common.OpenAPIDefinition{Schema: *unwrapRefs(wrapped), Dependencies: t.dependencies}
	if t.v2 == "" {
		return d, nil
	}
	v2, err := parseSchema(t.v2, prefix)
	if err != nil {
		return d, err
	}
	return common.EmbedOpenAPIDefinitionIntoV2Extension(d, common.OpenAPIDefinition{Schema: *v2}), nil
}

// parseSchema parses a schema, and replaces definitionsV3 in references by prefix. Within strings the quotes before $ref would be escaped.
func parseSchema(text, prefix string) (*spec.Schema, error) {
	const ref = `"$ref":"`
	s := &spec.Schema{}
	return s, json.Unmarshal([]byte(strings.ReplaceAll(text, ref+definitionsV3, ref+prefix)), s)
}

// unwrapRefs undoes the wrapping of references with siblings by the builder of version 3, which will wrap them again (builder3/util.WrapRefs).
func unwrapRefs(schema *spec.Schema) *spec.Schema {
	walker := schemamutation.Walker{
		SchemaCallback: func(s *spec.Schema) *spec.Schema {
			if len(s.AllOf) != 1 || !reflect.DeepEqual(s.AllOf[0], spec.Schema{SchemaProps: spec.SchemaProps{Ref: s.AllOf[0].Ref}}) {
				return s
			}
			plain := *s
			plain.Ref, plain.AllOf = s.AllOf[0].Ref, nil
			return &plain
		},
		RefCallback: schemamutation.RefCallbackNoop,
	}
	return walker.WalkSchema(schema)
}
