package custom

import (
	"crypto/sha256"
	"reflect"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// Upstream's validation of a definition spends most of its time, milliseconds, on the schemas, and has the same result again for a definition
// that is applied again, or that differs in names and metadata alone. The result for schemas depends on the spec without group and names, and
// in an update also on that of the earlier spec. If these were found valid, the definition is validated with empty schemas. If that fails, it
// is validated as a whole.

// validated remembers valid specs.
type validated struct{ seen }

// validate validates a definition: a new one if old is nil. whole is upstream's validation.
func (v *validated) validate(now, old *apiextensions.CustomResourceDefinition, whole func(now, old *apiextensions.CustomResourceDefinition) field.ErrorList) field.ErrorList {
	if !fastpath.Definitions.On() {
		return whole(now, old)
	}
	// A definition that is valid as new is valid as an update, for which upstream has fewer rules.
	sent := specKey(nil, now)
	key, known := sent, v.Has(sent)
	if !known && old != nil {
		if known = apiequality.Semantic.DeepEqual(&old.Spec, &now.Spec) && v.knownAsText(now); !known {
			key = specKey(old, now)
			known = v.Has(key)
		}
	}
	if known {
		if len(whole(withoutSchemas(now), withoutSchemas(old))) == 0 {
			return nil
		}
	}
	fastpath.Definitions.Fallback()
	errs := whole(now, old)
	// Upstream's validation removes unknown metadata fields from defaults (canonicalSchema). It has to do so each time.
	if len(errs) == 0 && specKey(nil, now) == sent {
		v.Add(key)
	}
	return errs
}

// knownAsText reports whether a definition was found valid as a new one with its schemas as text. It takes as long as encoding the definition.
func (v *validated) knownAsText(crd *apiextensions.CustomResourceDefinition) bool {
	lean := *crd
	ok := fastpath.DefinitionSchemas.On()
	eachSchema(&lean, func(s *apiextensions.JSONSchemaProps) *apiextensions.JSONSchemaProps {
		var text string
		if ok {
			text, ok = storedText(s)
		}
		return placeholder(text)
	})
	return ok && v.Has(specKey(nil, &lean))
}

// specKey is a hash of the specs of a definition without group and names; old is nil for a new one.
func specKey(old, now *apiextensions.CustomResourceDefinition) (key [sha256.Size]byte) {
	h := sha256.New()
	for _, crd := range []*apiextensions.CustomResourceDefinition{old, now} {
		if crd == nil {
			continue
		}
		spec := crd.Spec
		spec.Group, spec.Names = "", apiextensions.CustomResourceDefinitionNames{}
		writeValue(h, reflect.ValueOf(&spec))
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// withoutSchemas is a definition with empty schemas in place of its own, and without the selectable fields, which refer to them. The schemas
// of versions stay different from each other.
func withoutSchemas(crd *apiextensions.CustomResourceDefinition) *apiextensions.CustomResourceDefinition {
	if crd == nil {
		return nil
	}
	light := *crd
	light.Spec.Validation, light.Spec.SelectableFields = emptySchema(crd.Spec.Validation, ""), nil
	light.Spec.Versions = make([]apiextensions.CustomResourceDefinitionVersion, len(crd.Spec.Versions))
	for i, version := range crd.Spec.Versions {
		version.Schema, version.SelectableFields = emptySchema(version.Schema, version.Name), nil
		light.Spec.Versions[i] = version
	}
	return &light
}

func emptySchema(of *apiextensions.CustomResourceValidation, name string) *apiextensions.CustomResourceValidation {
	if of == nil || of.OpenAPIV3Schema == nil {
		return of
	}
	yes := true
	return &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &apiextensions.JSONSchemaProps{Type: "object", Description: name, XPreserveUnknownFields: &yes}}
}
