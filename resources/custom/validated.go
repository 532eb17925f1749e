package custom

import (
	"context"
	"crypto/sha256"
	"reflect"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/runtime"
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
	key := specKey(nil, now)
	known := v.Has(key)
	if !known && old != nil {
		key = specKey(old, now)
		known = v.Has(key)
	}
	if known {
		if len(whole(withoutSchemas(now), withoutSchemas(old))) == 0 {
			return nil
		}
	}
	fastpath.Definitions.Fallback()
	errs := whole(now, old)
	if len(errs) == 0 {
		v.Add(key)
	}
	return errs
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

// validateLean validates a new definition whose schemas are text. They are read when they are not known.
func (s *definitionStrategy) validateLean(ctx context.Context, crd *apiextensions.CustomResourceDefinition) field.ErrorList {
	d := s.definitions
	whole := func(now, _ *apiextensions.CustomResourceDefinition) field.ErrorList {
		return s.RESTCreateStrategy.Validate(ctx, now)
	}
	key := specKey(nil, crd)
	if fastpath.Definitions.On() && d.validated.Has(key) && len(whole(withoutSchemas(crd), nil)) == 0 {
		return nil
	}
	read := *crd
	if err := restore(&read); err != nil {
		return field.ErrorList{field.InternalError(field.NewPath("spec", "versions"), err)}
	}
	errs := d.validated.validate(&read, nil, whole)
	if len(errs) > 0 || !fastpath.Definitions.On() {
		return errs
	}
	d.validated.Add(key)
	if len(s.RESTCreateStrategy.WarningsOnCreate(ctx, &read)) == 0 {
		d.quiet.Add(key)
	}
	return nil
}

// WarningsOnCreate is upstream's, which looks into schemas.
func (s *definitionStrategy) WarningsOnCreate(ctx context.Context, obj runtime.Object) []string {
	crd, ok := obj.(*apiextensions.CustomResourceDefinition)
	if !ok || !isLean(crd) {
		return s.RESTCreateStrategy.WarningsOnCreate(ctx, obj)
	}
	if fastpath.Definitions.On() && s.definitions.quiet.Has(specKey(nil, crd)) {
		return s.RESTCreateStrategy.WarningsOnCreate(ctx, withoutSchemas(crd))
	}
	read := *crd
	if err := restore(&read); err != nil {
		return nil // it was restored when it was validated
	}
	return s.RESTCreateStrategy.WarningsOnCreate(ctx, &read)
}
