package resources

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Only references that are equal in all fields are duplicates.
func TestDedupOwners(t *testing.T) {
	yes, no := true, false
	a := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: "u"}
	plain, named, controls, says := a, a, a, a
	named.Name, controls.Controller, says.BlockOwnerDeletion = "b", &yes, &no
	says.Controller = &yes
	again := says
	again.BlockOwnerDeletion = new(bool)
	m := &metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{a, named, plain, controls, says, again, named}}
	DedupOwners(t.Context(), m, false)
	if diff := cmp.Diff([]metav1.OwnerReference{a, named, controls, says}, m.OwnerReferences); diff != "" {
		t.Error(diff)
	}
}

// A hundred thousand owners and finalizers stay as they are.
func TestManyOwnersAndFinalizers(t *testing.T) {
	m := &metav1.ObjectMeta{}
	for i := range 100_000 {
		m.OwnerReferences = append(m.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "K", Name: "n", UID: types.UID(fmt.Sprintf("%06d", i))})
		m.Finalizers = append(m.Finalizers, fmt.Sprintf("a/%06d", i))
	}
	began := time.Now()
	DedupOwners(t.Context(), m, false)
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationForeground, metav1.DeletePropagationForeground, metav1.DeletePropagationBackground} {
		(&Type{}).setDeletionFinalizers(t.Context(), m, &metav1.DeleteOptions{PropagationPolicy: &policy})
	}
	t.Logf("it took %v; in quadratic time it would take minutes", time.Since(began))
	if len(m.OwnerReferences) != 100_000 || len(m.Finalizers) != 100_000 {
		t.Errorf("%d owners and %d finalizers are left", len(m.OwnerReferences), len(m.Finalizers))
	}
}
