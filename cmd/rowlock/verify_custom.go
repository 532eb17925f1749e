package main

import (
	"encoding/json"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources"
)

// checkCustom returns the error of a custom object according to its definition. It does not validate the object against the present schema, since
// it was stored under an earlier one.
func checkCustom(o *resources.Object, d *apiextensionsv1.CustomResourceDefinition) error {
	if err := resources.CheckStoredRow(o); err != nil {
		return err
	}
	var u unstructured.Unstructured
	if err := json.Unmarshal(o.Data, &u.Object); err != nil {
		return fmt.Errorf("does not decode: %w", err)
	}
	if namespaced := d.Spec.Scope == apiextensionsv1.NamespaceScoped; namespaced != (o.Namespace != "") {
		return fmt.Errorf("has the namespace %q, which is not the scope of its definition", o.Namespace)
	}
	if u.GetKind() != d.Spec.Names.Kind {
		return fmt.Errorf("is of kind %q, and its definition is of %q", u.GetKind(), d.Spec.Names.Kind)
	}
	gv, err := schema.ParseGroupVersion(u.GetAPIVersion())
	if err != nil || gv.Group != d.Spec.Group {
		return fmt.Errorf("has the version %q, which is not of its group", u.GetAPIVersion())
	}
	for _, v := range d.Spec.Versions {
		if v.Name == gv.Version {
			return nil
		}
	}
	return fmt.Errorf("is stored in version %s, which its definition does not have", gv.Version)
}
