package resources_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rowlock/rowlock/resources"
)

// The deletion of an unreadable object needs a permission besides delete; nothing else is checked, and a readable object stays.
func TestPipelineDeletesUnread(t *testing.T) {
	w := newWay(t)
	maps := w.typeOf("configmaps")
	broken := resources.Write{Op: resources.Create, Key: maps.KeyOf("ns", "broken"), Draft: resources.Draft{Data: []byte(`{"kind":"ConfigMap","data":7}`)}}
	commit(t, w.store, broken)
	if _, err := w.Create(w.request("create", maps, "whole"), &resources.CreateRequest{Type: maps, Object: w.config("whole")}); err != nil {
		t.Fatal(err)
	}
	w.steps = nil
	remove := func(name string, dryRun ...string) (resources.Deleted, error) {
		return w.Delete(w.request("delete", maps, name), &resources.DeleteRequest{Type: maps, Name: name, Options: &metav1.DeleteOptions{
			DryRun: dryRun, IgnoreStoreReadErrorWithClusterBreakingPotential: ptr.To(true)}})
	}
	asked := func(name, end string) []string {
		return []string{"authorize jane delete " + name, "authorize jane unsafe-delete-ignore-read-errors " + name, "audit jane delete ns/" + name + " " + end}
	}

	w.denied = "unsafe-delete-ignore-read-errors"
	_, err := remove("broken")
	w.expect(err, metav1.StatusReasonForbidden, asked("broken", "Forbidden")...)
	const words = `configmaps "broken" is forbidden: not permitted to do "unsafe-delete-ignore-read-errors", reason: no rule`
	if err == nil || err.Error() != words {
		t.Errorf("the error is %v", err)
	}
	w.denied = ""
	_, err = remove("whole")
	w.expect(err, metav1.StatusReasonConflict, asked("whole", "Conflict")...)
	_, err = remove("nothing")
	if err == nil || apierrors.ReasonForError(err) != "" { // the caller makes a Status of it
		t.Errorf("of what is not there: %v", err)
	}
	w.steps = nil
	for _, dryRun := range [][]string{{metav1.DryRunAll}, nil} {
		if _, err := w.store.Get(t.Context(), broken.Key, resources.At{}); err != nil {
			t.Fatal(err)
		}
		d, err := remove("broken", dryRun...)
		w.expect(err, "", asked("broken", "done")...)
		if !d.Unread || !d.Gone || d.Object != nil {
			t.Errorf("%+v", d)
		}
	}
	if _, err := w.store.Get(t.Context(), broken.Key, resources.At{}); err == nil {
		t.Error("it is still there")
	}

	namespaces := w.typeOf("namespaces")
	_, err = w.Delete(w.request("delete", namespaces, "ns"), &resources.DeleteRequest{Type: namespaces, Name: "ns", Options: &metav1.DeleteOptions{
		IgnoreStoreReadErrorWithClusterBreakingPotential: ptr.To(true)}})
	if !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "no unsafe deleter provided") {
		t.Errorf("of a namespace: %v", err)
	}
}
