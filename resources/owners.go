package resources

import (
	"context"
	"fmt"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/warning"
)

// DedupOwners removes owner references that are equal to an earlier one, and warns the client.
func DedupOwners(ctx context.Context, m metav1.Object, afterAdmission bool) {
	refs := m.GetOwnerReferences()
	if len(refs) < 2 {
		return
	}
	var kept []metav1.OwnerReference
	var twice []string
	for _, ref := range refs {
		if hasOwner(kept, ref) {
			twice = append(twice, string(ref.UID))
			continue
		}
		kept = append(kept, ref)
	}
	if len(twice) == 0 {
		return
	}
	when := ""
	if afterAdmission {
		when = " after mutating admission happens"
	}
	warning.AddWarning(ctx, "", fmt.Sprintf(".metadata.ownerReferences contains duplicate entries%s; API server dedups owner "+
		"references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) "+
		"observed: %v", when, strings.Join(twice, ", ")))
	m.SetOwnerReferences(kept)
}

func hasOwner(refs []metav1.OwnerReference, ref metav1.OwnerReference) bool {
	for _, r := range refs {
		if r.UID == ref.UID && apiequality.Semantic.DeepEqual(r, ref) {
			return true
		}
	}
	return false
}
