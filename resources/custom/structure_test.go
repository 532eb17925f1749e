package custom

import (
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/utils/ptr"
)

// An imported definition whose schema is not structural has the condition until it is fixed, with kube-apiserver's
// text; no other one has it.
func TestNonStructuralSchema(t *testing.T) {
	crd := validDefinition()
	expect := func(what string, status apiextensions.ConditionStatus, reason, message string) {
		t.Helper()
		before := apiextensions.FindCRDCondition(crd, nonStructural)
		structure(crd)
		c := apiextensions.FindCRDCondition(crd, nonStructural)
		switch {
		case reason == "" && c != nil, reason != "" && (c == nil || c.Status != status || c.Reason != reason || c.Message != message):
			t.Errorf("%s: %+v, before %+v", what, c, before)
		}
	}
	set := func(schema *apiextensions.JSONSchemaProps) {
		crd.Spec.Validation = nil
		for i := range crd.Spec.Versions {
			crd.Spec.Versions[i].Schema = nil
		}
		crd.Spec.Versions[0].Schema = &apiextensions.CustomResourceValidation{OpenAPIV3Schema: schema}
	}
	open := &apiextensions.JSONSchemaProps{Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{"spec": {}}}
	const at = "spec.versions[0].schema.openAPIV3Schema"
	const untyped = at + ".properties[spec].type: Required value: must not be empty for specified object fields"
	set(&apiextensions.JSONSchemaProps{Type: "object"})
	expect("a structural one", "", "", "")
	crd.Spec.PreserveUnknownFields = ptr.To(true)
	expect("one that keeps unknown fields", apiextensions.ConditionTrue, "Violations", "spec.preserveUnknownFields: Invalid value: true: must be false")
	set(open)
	expect("both", apiextensions.ConditionTrue, "Violations", "[spec.preserveUnknownFields: Invalid value: true: must be false, "+untyped+"]")
	crd.Spec.PreserveUnknownFields = ptr.To(false)
	expect("one without a type", apiextensions.ConditionTrue, "Violations", untyped)
	set(&apiextensions.JSONSchemaProps{Type: "array", Items: &apiextensions.JSONSchemaPropsOrArray{JSONSchemas: []apiextensions.JSONSchemaProps{{}}}})
	expect("one that cannot be read", apiextensions.ConditionUnknown, "StructuralError", "failed to check validation schema for version "+crd.Spec.Versions[0].Name+
		": OpenAPIV3Schema 'items' must be a schema, but is an array")
	set(&apiextensions.JSONSchemaProps{Type: "object"})
	expect("one that was mended", "", "", "")
}
