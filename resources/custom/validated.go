package custom

import (
	"crypto/sha256"
	"reflect"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// Most of what upstream's validation of a definition looks at is its schemas, which takes milliseconds, and it is the same again for
// a definition that is applied again, or that differs in names and metadata alone. What it says of schemas depends on the spec without
// group and names, and in an update on the same of the spec before. Where that was found valid, the definition is validated with
// schemas that say nothing. Whatever that refuses is validated whole.

// validated remembers what was found valid.
type validated struct{ seen }

// validate validates a definition: a new one where old is nil. whole is upstream's validation.
func (v *validated) validate(now, old *apiextensions.CustomResourceDefinition, whole func(now, old *apiextensions.CustomResourceDefinition) field.ErrorList) field.ErrorList {
	if !fastpath.Definitions.On() {
		return whole(now, old)
	}
	// What is valid as new is valid as an update, which is refused less.
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
	// Upstream's validation takes out of defaults what metadata does not have (canonicalSchema). It is to do so again.
	if len(errs) == 0 && specKey(nil, now) == sent {
		v.Add(key)
	}
	return errs
}

// knownAsText tells whether a definition was found valid when it was new, and its schemas text. To find that out takes as long as to write it.
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

// specKey stands for the specs of a definition without group and names; old is nil for a new one.
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

// withoutSchemas is a definition with schemas that say nothing in place of its own, and without the fields that are looked for in these.
// Those of versions stay different from each other.
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
