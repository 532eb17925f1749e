package custom

import (
	"context"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// strategy has the rules of a version. Validation, which needs the schema, is compiled when an object is first validated: reads and
// deletions compile nothing.
type strategy struct {
	light
	heavy *heavy
}

// light are upstream's rules of custom resources that need no schema: those of metadata and of scale.
type light interface {
	rest.RESTCreateStrategy
	rest.RESTUpdateStrategy
	rest.ResetFieldsStrategy
}

// Validate checks a new object.
func (s strategy) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	if errs, ok := s.heavy.quick(ctx, obj, nil, func() field.ErrorList { return s.light.Validate(ctx, obj) }); ok {
		return errs
	}
	r, err := s.heavy.refuser()
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	return r.object.(rest.RESTCreateStrategy).Validate(ctx, obj)
}

// ValidateUpdate checks an update.
func (s strategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	if errs, ok := s.heavy.quick(ctx, obj, old, func() field.ErrorList { return s.light.ValidateUpdate(ctx, obj, old) }); ok {
		return errs
	}
	r, err := s.heavy.refuser()
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	return r.object.ValidateUpdate(ctx, obj, old)
}

// statusStrategy has the rules of the subresource status of a version.
type statusStrategy struct {
	statusLight
	heavy *heavy
}

type statusLight interface {
	rest.RESTUpdateStrategy
	rest.ResetFieldsStrategy
}

// ValidateUpdate checks an update of the status. Upstream validates only the status by the schema; a valid whole object implies a valid
// status.
func (s statusStrategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	if errs, ok := s.heavy.quick(ctx, obj, old, func() field.ErrorList { return s.statusLight.ValidateUpdate(ctx, obj, old) }); ok {
		return errs
	}
	r, err := s.heavy.refuser()
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	return r.status.ValidateUpdate(ctx, obj, old)
}

// strategies returns the rules of a version.
func (d *definition) strategies(typer runtime.ObjectTyper, kind schema.GroupVersionKind, namespaced bool,
	v *apiextensionsv1.CustomResourceDefinitionVersion) (strategy, statusStrategy, error) {
	status, scale, err := subresources(v)
	if err != nil {
		return strategy{}, statusStrategy{}, err
	}
	selectable := v.SelectableFields
	h := &heavy{definition: d, version: kind.Version, build: func() (any, error) {
		s, err := d.schema(kind.Version)
		if err != nil {
			return nil, err
		}
		validator, _, err := validation.NewSchemaValidator(s.props)
		if err != nil {
			return nil, err
		}
		var ofStatus validation.SchemaValidator
		if s.props != nil && status != nil {
			if props, ok := s.props.Properties["status"]; ok {
				if ofStatus, _, err = validation.NewSchemaValidator(&props); err != nil {
					return nil, err
				}
			}
		}
		whole := customresource.NewStrategy(typer, namespaced, kind, validator, ofStatus, s.structural, status, scale, selectable)
		return refuser{whole, customresource.NewStatusStrategy(whole)}, nil
	}}
	bare := customresource.NewStrategy(typer, namespaced, kind, nil, nil, nil, status, scale, selectable)
	return strategy{bare, h}, statusStrategy{customresource.NewStatusStrategy(bare), h}, nil
}

// subresources returns the subresources of a version in the form that upstream's rules need.
func subresources(v *apiextensionsv1.CustomResourceDefinitionVersion) (status *apiextensions.CustomResourceSubresourceStatus,
	scale *apiextensions.CustomResourceSubresourceScale, err error) {
	if v.Subresources == nil {
		return nil, nil, nil
	}
	if v.Subresources.Status != nil {
		status = &apiextensions.CustomResourceSubresourceStatus{}
	}
	if v.Subresources.Scale != nil {
		scale = &apiextensions.CustomResourceSubresourceScale{}
		err = apiextensionsv1.Convert_v1_CustomResourceSubresourceScale_To_apiextensions_CustomResourceSubresourceScale(v.Subresources.Scale, scale, nil)
	}
	return status, scale, err
}

// resetFields are the fields that writes through a path leave alone, by version.
type resetFields map[fieldpath.APIVersion]*fieldpath.Set

func (r resetFields) add(s rest.ResetFieldsStrategy) {
	for version, set := range s.GetResetFields() {
		shared, _ := resetSets.LoadOrStore(set.String(), set)
		r[version] = shared.(*fieldpath.Set)
	}
}

// resetSets are the sets that strategies reset: two, the same for all definitions. They are never changed.
var resetSets sync.Map
