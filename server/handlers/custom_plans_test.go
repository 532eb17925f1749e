package handlers_test

import (
	"encoding/json"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	structuraldefaulting "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"

	"github.com/rowlock/rowlock/e2e/harness"
	"github.com/rowlock/rowlock/resources/custom/plan"
)

// The plans of published schemas are equal, whether they are compiled from the text or from upstream's decoded schema.
func TestPlansOfPublishedDefinitions(t *testing.T) {
	published, err := harness.Published(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, left := 0, 0
	for _, crd := range published {
		for _, v := range crd.Spec.Versions {
			if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
				continue
			}
			text, want := planOf(t, v.Schema.OpenAPIV3Schema)
			all++
			switch got, ok := plan.CompileStored(text); {
			case !ok:
				left++
			case got != want:
				t.Errorf("%s in version %s has another plan", crd.Name, v.Name)
			}
		}
	}
	if all < 100 || left > all/20 {
		t.Errorf("of %d schemas %d are left to upstream's packages", all, left)
	}
	t.Logf("of %d schemas %d are left to upstream's packages", all, left)
}

// planOf returns a schema's stored text, and the plan of its decoded form.
func planOf(t *testing.T, written *apiextensionsv1.JSONSchemaProps) (text string, of *plan.Node) {
	t.Helper()
	props, stored := &apiextensions.JSONSchemaProps{}, &apiextensionsv1.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(written, props, nil); err != nil {
		t.Fatal(err)
	}
	if err := apiextensionsv1.Convert_apiextensions_JSONSchemaProps_To_v1_JSONSchemaProps(props, stored, nil); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(stored)
	if err != nil {
		t.Fatal(err)
	}
	structural, err := structuralschema.NewStructural(props)
	if err != nil {
		t.Fatal(err)
	}
	structural = structural.DeepCopy()
	if err := structuraldefaulting.PruneDefaults(structural); err != nil {
		t.Fatal(err)
	}
	_, openAPI, err := validation.NewSchemaValidator(props)
	if err != nil {
		t.Fatal(err)
	}
	return string(data), plan.Compile(openAPI, structural)
}
