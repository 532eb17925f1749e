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

// Where a document of each version has its definitions.
const (
	definitionsV2 = "#/definitions/"
	definitionsV3 = "#/components/schemas/"
)

// Definitions are upstream's, each referring to others below a prefix, less what belongs to features that are off.
// Upstream's generated code for them is six megabytes of a binary and is not linked: the archive has them as text. Where models
// are named, those and what they depend on are enough; the caller may add to the map.
type Definitions func(prefix string, models []string) (map[string]common.OpenAPIDefinition, error)

// embedded reads the definitions of the archive; models are untypedModels where there are any.
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

// fewTexts are those of untypedModels and of what these depend on. They are kept: to read the archive for each document of a few types
// takes longer than to build that.
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
				dependencies = append(dependencies, strings.Clone(d)) // none of it is a part of the whole text, which would stay
			}
			left = append(left, dependencies...)
			few[name] = definitionText{dependencies, strings.Clone(text.v3), strings.Clone(text.v2)}
		}
	}
	return few, nil
})

// fewDefinitions are those of untypedModels for version 3, for the caller to add to. They are kept until the server comes to rest: to read the
// texts for each document takes a fifth of the time that the rest of it does. A builder changes the extensions of what it is given, and copies
// what else it changes.
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

// enabled takes away what belongs to features that are off.
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

// parseSchema reads a schema that refers below definitionsV3. In a text the quotes before $ref would be escaped.
func parseSchema(text, prefix string) (*spec.Schema, error) {
	const ref = `"$ref":"`
	s := &spec.Schema{}
	return s, json.Unmarshal([]byte(strings.ReplaceAll(text, ref+definitionsV3, ref+prefix)), s)
}

// unwrapRefs undoes what the builder of version 3 does to a reference that has something beside it, and will do again
// (builder3/util.WrapRefs).
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
