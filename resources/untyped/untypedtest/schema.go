package untypedtest

import (
	"encoding/json"
	"fmt"
	"sync"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	openapiv2 "k8s.io/apiextensions-apiserver/pkg/controller/openapi/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// schema is the schema of the version, in JSON.
func (v Version) schema() string {
	return fmt.Sprintf(`{"type":"object","description":"Toy is something to play with.","properties":{
		"spec":{"type":"object","description":"What the toy is like.","properties":{
			%q:{"type":"string","description":"How it looks.","nullable":true},
			"price":{"type":"integer","minimum":0,"description":"%s"},
			"tags":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
			"batteries":{"type":"array","items":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}},
			"box":{"type":"object","x-kubernetes-embedded-resource":true,"required":["lid","kind"],"properties":{"lid":{"type":"boolean"},
				"metadata":{"type":"object","properties":{"name":{"type":"string","maxLength":9}}}}},
			"size":{"x-kubernetes-int-or-string":true}}},
		"status":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}`, v.Color, "What it costs. "+v.Note)
}

// Definition is the CustomResourceDefinition that is equivalent to the versions.
func Definition(versions ...Version) (*apiextensionsv1.CustomResourceDefinition, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "toys." + Group}}
	crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{Group: Group, Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "toys", Singular: "toy", Kind: "Toy", ListKind: "ToyBox"}}
	for i, v := range versions {
		var selectable []apiextensionsv1.SelectableField
		for _, f := range v.Selectable {
			selectable = append(selectable, apiextensionsv1.SelectableField{JSONPath: "." + f})
		}
		props := &apiextensionsv1.JSONSchemaProps{}
		if err := json.Unmarshal([]byte(v.schema()), props); err != nil {
			return nil, err
		}
		crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: v.Version, Served: true, Storage: i == 0,
			Schema:           &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: props},
			Subresources:     &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			SelectableFields: selectable})
	}
	return crd, nil
}

// openAPI is the schema in the form for documents of OpenAPI.
func (v Version) openAPI(v2 bool) (*spec.Schema, error) {
	crd, err := Definition(v)
	if err != nil {
		return nil, err
	}
	var internal apiextensions.CustomResourceValidation
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(crd.Spec.Versions[0].Schema, &internal, nil); err != nil {
		return nil, err
	}
	s, err := structuralschema.NewStructural(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	s = s.Unfold()
	if v2 {
		s = openapiv2.ToStructuralOpenAPIV2(s)
	}
	return s.ToKubeOpenAPI(), nil
}

// fieldTypes is the schema of all versions for field ownership.
var fieldTypes = sync.OnceValues(func() (managedfields.TypeConverter, error) {
	definitions := map[string]*spec.Schema{}
	for _, v := range Versions() {
		text := fmt.Sprintf(`{"type":"object","properties":{"apiVersion":{"type":"string"},"kind":{"type":"string"},
			"metadata":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
			"status":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
			"spec":{"type":"object","properties":{%q:{"type":"string"},"price":{"type":"integer"},
				"tags":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}}}}},
			"x-kubernetes-group-version-kind":[{"group":"toys.example.org","version":%q,"kind":"Toy"}]}`, v.Color, v.Version)
		s := &spec.Schema{}
		if err := json.Unmarshal([]byte(text), s); err != nil {
			return nil, err
		}
		definitions["org.example."+v.Version+".Toy"] = s
	}
	return managedfields.NewTypeConverter(definitions, false)
})
