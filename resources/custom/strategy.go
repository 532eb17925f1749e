package custom

import (
	"context"

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

// strategy is upstream's rules of a version. What they need the schema for, validation, is compiled when something is first
// validated: reads and deletions compile nothing.
type strategy struct {
	light
	heavy func() (heavy, error)
}

// light and heavy are the rules of custom resources without and with their schema.
type light interface {
	rest.RESTCreateStrategy
	rest.RESTUpdateStrategy
	rest.ResetFieldsStrategy
}

type heavy struct{ object, status rest.RESTUpdateStrategy }

// Validate checks a new object by the schema.
func (s strategy) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	h, err := s.heavy()
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	return h.object.(rest.RESTCreateStrategy).Validate(ctx, obj)
}

// ValidateUpdate checks an update by the schema.
func (s strategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	h, err := s.heavy()
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	return h.object.ValidateUpdate(ctx, obj, old)
}

// statusStrategy is upstream's rules of the subresource status of a version.
type statusStrategy struct {
	statusLight
	heavy func() (heavy, error)
}

type statusLight interface {
	rest.RESTUpdateStrategy
	rest.ResetFieldsStrategy
}

// ValidateUpdate checks an update by the schema of the status.
func (s statusStrategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	h, err := s.heavy()
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	return h.status.ValidateUpdate(ctx, obj, old)
}

// rulesKey is the key of the rules of a version among what is compiled. They take about rulesCost times the length of the text of their
// schema, and ruleCost bytes for each rule in CEL.
type rulesKey struct {
	name     string
	revision int64
	version  string
}

const (
	rulesCost = 2
	ruleCost  = 24 << 10
)

// strategies returns the rules of a version.
func (d *definition) strategies(typer runtime.ObjectTyper, kind schema.GroupVersionKind, namespaced bool,
	v *apiextensionsv1.CustomResourceDefinitionVersion) (strategy, statusStrategy, error) {
	status, scale, err := subresources(v)
	if err != nil {
		return strategy{}, statusStrategy{}, err
	}
	selectable := v.SelectableFields
	build := func() (any, error) {
		s, err := d.schema(kind.Version)
		if err != nil {
			return heavy{}, err
		}
		validator, _, err := validation.NewSchemaValidator(s.props)
		if err != nil {
			return heavy{}, err
		}
		var ofStatus validation.SchemaValidator
		if s.props != nil && status != nil {
			if props, ok := s.props.Properties["status"]; ok {
				if ofStatus, _, err = validation.NewSchemaValidator(&props); err != nil {
					return heavy{}, err
				}
			}
		}
		whole := customresource.NewStrategy(typer, namespaced, kind, validator, ofStatus, s.structural, status, scale, selectable)
		return heavy{whole, customresource.NewStatusStrategy(whole)}, nil
	}
	compile := func() (heavy, error) {
		sum := d.sums[kind.Version]
		v, err := d.compiled.get(rulesKey{d.name, d.revision, kind.Version}, int64(sum.size)*rulesCost+int64(sum.rules)*ruleCost, build)
		if err != nil {
			return heavy{}, err
		}
		return v.(heavy), nil
	}
	bare := customresource.NewStrategy(typer, namespaced, kind, nil, nil, nil, status, scale, selectable)
	return strategy{bare, compile}, statusStrategy{customresource.NewStatusStrategy(bare), compile}, nil
}

// subresources returns what a version says of its subresources, in the form that upstream's rules want.
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

// resetFields are what writes through a path leave alone, by version.
type resetFields map[fieldpath.APIVersion]*fieldpath.Set

func (r resetFields) add(s rest.ResetFieldsStrategy) {
	for version, set := range s.GetResetFields() {
		r[version] = set
	}
}
