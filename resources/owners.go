package resources

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
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
	seen := sets.Set[string]{} // a body of 3 MiB may have 50,000: comparing each with all others would take seconds
	for _, ref := range refs {
		text, _ := json.Marshal(ref) // fields of text, and pointers to flags, always encode
		key := string(text)
		if seen.Has(key) {
			twice = append(twice, string(ref.UID))
			continue
		}
		seen.Insert(key)
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
