package resources

import (
	"context"
	"fmt"
	"strings"

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
	seen := map[ownerKey]bool{}
	for _, ref := range refs {
		key := ownerKey{ref, said(ref.Controller), said(ref.BlockOwnerDeletion)}
		key.Controller, key.BlockOwnerDeletion = nil, nil
		if seen[key] {
			twice = append(twice, string(ref.UID))
			continue
		}
		seen[key] = true
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

// ownerKey is the same for equal owner references. A body of 3 MiB may have 50,000 of them: comparing each with all others would take seconds.
type ownerKey struct {
	metav1.OwnerReference // without its pointers
	controller, blocks    int8
}

func said(b *bool) int8 {
	switch {
	case b == nil:
		return 0
	case *b:
		return 1
	}
	return 2
}
