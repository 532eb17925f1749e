package e2e

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// same fails the test unless two ways to read gave the same object.
func same(t *testing.T, how string, got, want *unstructured.Unstructured) {
	t.Helper()
	if diff := cmp.Diff(want.Object, got.Object); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", how, diff)
	}
}
