package builtin_test

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources/builtin"
)

func TestNamespaceTerminates(t *testing.T) {
	c := newCluster(t, builtin.Parts{})
	c.create("", "namespaces", `{"metadata":{"name":"n"}}`)
	s := c.served("", "namespaces")
	ns := c.get("", "namespaces", "n").(*core.Namespace)

	if kept := s.Terminate(ns, metav1.Now()); !kept || ns.DeletionTimestamp == nil || ns.Status.Phase != core.NamespaceTerminating {
		t.Errorf("the first delete leaves %+v, kept: %v", ns, kept)
	}
	if !s.Terminate(ns, metav1.Now()) {
		t.Error("a namespace that still has content goes")
	}
	if s.ShouldDeleteDuringUpdate(t.Context(), ns, ns) {
		t.Error("an update removes a namespace that still has content")
	}
	ns.Spec.Finalizers = nil
	if s.Terminate(ns, metav1.Now()) {
		t.Error("a finalized namespace is kept")
	}
	if !s.ShouldDeleteDuringUpdate(t.Context(), ns, ns) {
		t.Error("the update that finalizes a namespace does not remove it")
	}
}

// warnings collects the warnings of a request.
type warnings []string

func (w *warnings) AddWarning(_, text string) { *w = append(*w, text) }

func TestJobDeletionWarnsOfOrphans(t *testing.T) {
	c := newCluster(t, builtin.Parts{})
	s := c.served("batch", "jobs")
	warned := func(o metav1.DeleteOptions) int {
		var w warnings
		if err := s.BeforeDelete(warning.WithWarningRecorder(c.request(s, "", "j"), &w), "j", &o); err != nil {
			t.Fatal(err)
		}
		return len(w)
	}
	if warned(metav1.DeleteOptions{}) != 1 {
		t.Error("no warning")
	}
	background := metav1.DeletePropagationBackground
	if warned(metav1.DeleteOptions{PropagationPolicy: &background}) != 0 {
		t.Error("a warning of what the client asked for")
	}
}

func TestSystemPriorityClassesStay(t *testing.T) {
	c := newCluster(t, builtin.Parts{})
	s := c.served("scheduling.k8s.io", "priorityclasses")
	c.expect(s.BeforeDelete(context.Background(), "system-node-critical", nil), refusal{403,
		`priorityclasses.scheduling.k8s.io "system-node-critical" is forbidden: this is a system priority class and cannot be deleted`})
	if err := s.BeforeDelete(context.Background(), "mine", nil); err != nil {
		t.Error(err)
	}
}
