package custom

import (
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

const nonStructural = apiextensions.CustomResourceDefinitionConditionType(apiextensionsv1.NonStructuralSchema)

// structure sets the condition for schemas that are not structural, as kube-apiserver's controller does. Validation allows only updates
// that leave such a schema unchanged, so the condition concerns definitions that were imported from a kube-apiserver: these have the
// condition already, or preserveUnknownFields.
func structure(crd *apiextensions.CustomResourceDefinition) {
	old := apiextensions.FindCRDCondition(crd, nonStructural)
	if old == nil && !ptr.Deref(crd.Spec.PreserveUnknownFields, false) {
		return
	}
	status, reason, message := violations(crd)
	switch {
	case reason == "":
		apiextensions.RemoveCRDCondition(crd, nonStructural)
	case old == nil || old.Status != status || old.Reason != reason || old.Message != message:
		setCondition(crd, nonStructural, status, reason, message)
	}
}

// violations are the violations of structural schemas; without a reason there are none.
func violations(crd *apiextensions.CustomResourceDefinition) (status apiextensions.ConditionStatus, reason, message string) {
	if isLean(crd) {
		read := *crd
		if err := restore(&read, readProps); err != nil {
			return apiextensions.ConditionUnknown, "StructuralError", fmt.Sprintf("failed to read validation schemas: %v", err)
		}
		crd = &read
	}
	var errs field.ErrorList
	if ptr.Deref(crd.Spec.PreserveUnknownFields, false) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "preserveUnknownFields"), true, "must be false"))
	}
	for i, v := range crd.Spec.Versions {
		validation, err := apiextensions.GetSchemaForVersion(crd, v.Name)
		if err != nil || validation == nil || validation.OpenAPIV3Schema == nil {
			continue
		}
		s, err := structuralschema.NewStructural(validation.OpenAPIV3Schema)
		if err != nil {
			return apiextensions.ConditionUnknown, "StructuralError", fmt.Sprintf("failed to check validation schema for version %s: %v", v.Name, err)
		}
		errs = append(errs, structuralschema.ValidateStructural(field.NewPath("spec", "versions").Index(i).Child("schema", "openAPIV3Schema"), s)...)
	}
	if len(errs) == 0 {
		return "", "", ""
	}
	return apiextensions.ConditionTrue, "Violations", errs.ToAggregate().Error()
}
