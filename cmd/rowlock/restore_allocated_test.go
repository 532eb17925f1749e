package main

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A headless Service does not get an address, and a Service with an address does not become headless, when the live one differs.
func TestHeadlessServicesStayHeadless(t *testing.T) {
	service := func(address string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"clusterIP": address, "clusterIPs": []any{address}}}}
	}
	for _, c := range []struct {
		body, live *unstructured.Unstructured
		other      bool
	}{
		{service("10.0.0.1"), nil, true},
		{service("10.0.0.1"), service("10.0.0.2"), true},
		{service("None"), service("10.0.0.2"), false},
		{service("10.0.0.1"), service("None"), false},
	} {
		refused := apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "s", field.ErrorList{field.Invalid(field.NewPath("spec", "clusterIPs").Index(0), "x", "may not change once set")})
		if other := withoutTaken(c.body, c.live, refused); other != c.other {
			t.Errorf("%v over %v: another address %t", c.body, c.live, other)
		}
		if _, kept, _ := unstructured.NestedString(c.body.Object, "spec", "clusterIP"); kept == c.other {
			t.Errorf("%v over %v: it has its address: %t", c.body, c.live, kept)
		}
	}
}
