package custom

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// validateLean validates a new definition whose schemas are text. It reads only unknown schemas, and as little of them as possible.
func (s *definitionStrategy) validateLean(ctx context.Context, crd *apiextensions.CustomResourceDefinition) field.ErrorList {
	d := s.definitions
	whole := func(now, _ *apiextensions.CustomResourceDefinition) field.ErrorList {
		return s.RESTCreateStrategy.Validate(ctx, now)
	}
	var key [sha256.Size]byte
	on := fastpath.Definitions.On()
	if on {
		key = specKey(nil, crd)
		if d.validated.Has(key) && len(whole(withoutSchemas(crd), nil)) == 0 {
			return nil
		}
		if short, r, complete, err := d.reduced(crd); err == nil {
			errs := whole(short, nil)
			valid := len(errs) == 0 && !slices.ContainsFunc(r.ruled, func(places []ruledPlace) bool { return !d.rulesHold(ctx, places) })
			if valid && s.remember(ctx, key, short) {
				for part := range r.met {
					d.parts.Add(part)
				}
			}
			if complete {
				fastpath.Definitions.Fallback()
			}
			if valid || complete {
				return errs
			}
		}
	}
	read := *crd
	if err := restore(&read, readProps); err != nil {
		return field.ErrorList{field.InternalError(field.NewPath("spec", "versions"), err)}
	}
	errs := d.validated.validate(&read, nil, whole)
	if on && len(errs) == 0 {
		s.remember(ctx, key, &read)
	}
	return errs
}

// validateLean validates an update whose old or new definition has schemas as text. A definition that is valid as new is valid as an update,
// for which upstream has fewer rules.
func (s updateStrategy) validateLean(ctx context.Context, now, before *apiextensions.CustomResourceDefinition) field.ErrorList {
	whole := func(now, before *apiextensions.CustomResourceDefinition) field.ErrorList {
		return s.RESTUpdateStrategy.ValidateUpdate(ctx, now, before)
	}
	if fastpath.Definitions.On() && isLean(now) && len(s.whole.validateLean(ctx, now)) == 0 && len(whole(withoutSchemas(now), withoutSchemas(before))) == 0 {
		return nil
	}
	read, old := *now, *before
	if err := errors.Join(restore(&read, readProps), restore(&old, readProps)); err != nil {
		return field.ErrorList{field.InternalError(field.NewPath("spec", "versions"), err)}
	}
	return s.whole.definitions.validated.validate(&read, &old, whole)
}

// WarningsOnUpdate is upstream's, which reads schemas for warnings that the old ones do not cause.
func (s updateStrategy) WarningsOnUpdate(ctx context.Context, obj, old runtime.Object) []string {
	now, ok := obj.(*apiextensions.CustomResourceDefinition)
	before, was := old.(*apiextensions.CustomResourceDefinition)
	if !ok || !was || !isLean(now) && !isLean(before) {
		return s.RESTUpdateStrategy.WarningsOnUpdate(ctx, obj, old)
	}
	if sameSchemas(now, before) || fastpath.Definitions.On() && s.whole.definitions.quiet.Has(specKey(nil, now)) {
		return s.RESTUpdateStrategy.WarningsOnUpdate(ctx, withoutSchemas(now), withoutSchemas(before))
	}
	readForWarnings()
	read, earlier := *now, *before
	if err := errors.Join(restore(&read, readProps), restore(&earlier, readProps)); err != nil {
		return nil // validation has restored them before
	}
	return s.RESTUpdateStrategy.WarningsOnUpdate(ctx, &read, &earlier)
}

// readForWarnings counts a definition whose schemas upstream reads for warnings.
func readForWarnings() {
	if fastpath.Definitions.On() {
		fastpath.Definitions.Fallback()
	}
}

// sameSchemas reports whether two definitions have equally many versions with the same schemas, all of them text. A top-level schema stands
// for all versions.
func sameSchemas(a, b *apiextensions.CustomResourceDefinition) bool {
	same := func(a, b *apiextensions.CustomResourceValidation) bool {
		return a == nil && b == nil || isPlaceholder(a) && isPlaceholder(b) && a.OpenAPIV3Schema.Description == b.OpenAPIV3Schema.Description
	}
	return same(a.Spec.Validation, b.Spec.Validation) &&
		slices.EqualFunc(a.Spec.Versions, b.Spec.Versions, func(a, b apiextensions.CustomResourceDefinitionVersion) bool { return same(a.Schema, b.Schema) })
}

// remember remembers that a new definition is valid, and reports whether it causes no warning.
func (s *definitionStrategy) remember(ctx context.Context, key [sha256.Size]byte, crd *apiextensions.CustomResourceDefinition) (quiet bool) {
	s.definitions.validated.Add(key)
	if quiet = len(s.RESTCreateStrategy.WarningsOnCreate(ctx, crd)) == 0; quiet {
		s.definitions.quiet.Add(key)
	}
	return quiet
}

var errUnread = errors.New("a schema is out of the ordinary")

// reduced is a definition, whose schemas are text, with stand-ins for the known parts and without rules that are checked separately.
// complete: it equals the definition.
func (d *Definitions) reduced(crd *apiextensions.CustomResourceDefinition) (short *apiextensions.CustomResourceDefinition, r *reducer, complete bool, err error) {
	short, complete, r = new(*crd), true, newReducer(&d.parts, &d.patterns)
	different := 0
	r.selected = selectedNames(crd)
	err = restore(short, func(text string) (*apiextensions.JSONSchemaProps, error) {
		less, ok := r.reduced(text)
		if !ok {
			// The unread schema may have parts whose second occurrence already has a stand-in. So all schemas have to be validated as a
			// whole.
			return nil, errUnread
		}
		complete = complete && less == text
		props, err := readProps(less)
		if err == nil && less != text {
			different++
			props.Description = strconv.Itoa(different) // upstream requires one schema for all versions to be at the top level
		}
		return props, err
	})
	return short, r, complete, err
}

// selectedNames are the field names in the paths of selectable fields.
func selectedNames(crd *apiextensions.CustomResourceDefinition) map[string]bool {
	names := map[string]bool{}
	add := func(fields []apiextensions.SelectableField) {
		for _, f := range fields {
			for _, name := range strings.FieldsFunc(f.JSONPath, func(r rune) bool { return strings.ContainsRune(`.[]'"`, r) }) {
				names[name] = true
			}
		}
	}
	add(crd.Spec.SelectableFields)
	for _, v := range crd.Spec.Versions {
		add(v.SelectableFields)
	}
	return names
}

// WarningsOnCreate is upstream's, which reads schemas.
func (s *definitionStrategy) WarningsOnCreate(ctx context.Context, obj runtime.Object) []string {
	crd, ok := obj.(*apiextensions.CustomResourceDefinition)
	if !ok || !isLean(crd) {
		return s.RESTCreateStrategy.WarningsOnCreate(ctx, obj)
	}
	if fastpath.Definitions.On() && s.definitions.quiet.Has(specKey(nil, crd)) {
		return s.RESTCreateStrategy.WarningsOnCreate(ctx, withoutSchemas(crd))
	}
	readForWarnings()
	read := *crd
	if err := restore(&read, readProps); err != nil {
		return nil // validation has restored it before
	}
	return s.RESTCreateStrategy.WarningsOnCreate(ctx, &read)
}

// placeholder is the placeholder of a schema with a text, which begins with the mark.
func placeholder(text string) *apiextensions.JSONSchemaProps {
	yes := true
	return &apiextensions.JSONSchemaProps{Type: "object", Description: text, XPreserveUnknownFields: &yes}
}

// isLean reports whether schemas of a definition are placeholders.
func isLean(crd *apiextensions.CustomResourceDefinition) bool {
	if isPlaceholder(crd.Spec.Validation) {
		return true
	}
	for i := range crd.Spec.Versions {
		if isPlaceholder(crd.Spec.Versions[i].Schema) {
			return true
		}
	}
	return false
}

// isPlaceholder reports whether a schema is a placeholder.
func isPlaceholder(v *apiextensions.CustomResourceValidation) bool {
	return v != nil && v.OpenAPIV3Schema != nil && strings.HasPrefix(v.OpenAPIV3Schema.Description, mark)
}
