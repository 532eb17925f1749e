package resources_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"github.com/rowlock/rowlock/resources"
)

// A webhook decodes the options of a review by their kind, which the server's own controllers do not set.
func TestDeletionsNameTheKindOfTheirOptions(t *testing.T) {
	w := newWay(t)
	maps := w.typeOf("configmaps")
	var shown []metav1.TypeMeta
	look := func(a admission.Attributes) error {
		if o, ok := a.GetOperationOptions().(*metav1.DeleteOptions); ok {
			shown = append(shown, o.TypeMeta)
		}
		return nil
	}
	w.Use(&looker{gates: w.gates, validate: look}, nil)
	background := metav1.DeletePropagationBackground
	for _, options := range []*metav1.DeleteOptions{nil, {PropagationPolicy: &background}} {
		if _, err := w.Create(w.request("create", maps, "a"), &resources.CreateRequest{Type: maps, Object: w.config("a")}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Delete(w.request("delete", maps, "a"), &resources.DeleteRequest{Type: maps, Name: "a", Options: options}); err != nil {
			t.Fatal(err)
		}
	}
	named := metav1.TypeMeta{Kind: "DeleteOptions", APIVersion: "meta.k8s.io/v1"}
	if diff := cmp.Diff([]metav1.TypeMeta{named, named}, shown); diff != "" {
		t.Error(diff)
	}
}
