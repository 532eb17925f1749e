package resources_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rowlock/rowlock/resources"
)

// A request with the UID of a missing object gets its error before admission is called.
func TestUIDBeforeAdmission(t *testing.T) {
	w := newWay(t)
	maps := w.typeOf("configmaps")
	_, _, err := w.Update(w.request("update", maps, "a"), &resources.UpdateRequest{Type: maps, Name: "a", ForceCreate: true, UID: "other"})
	w.expect(err, metav1.StatusReasonConflict, "authorize jane update a", "audit jane update ns/a Conflict")
}
