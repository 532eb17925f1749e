package authz

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// marks are a set of resources in one word, as rules name them (pods, pods/log, */scale). Sets that have no bit in common have no resource in
// common; others may have none, either.
type marks uint64

// markOf is the set of one resource.
func markOf(resource string) marks {
	hash := uint32(2166136261) // FNV-1a
	for i := range len(resource) {
		hash = (hash ^ uint32(resource[i])) * 16777619
	}
	return 1 << (hash >> 26)
}

// marksOf is the set of what rules allow something of; all there is, where one of them is for all resources.
func marksOf(rules []rbacv1.PolicyRule) (all marks) {
	for i := range rules {
		if slices.Contains(rules[i].Resources, rbacv1.ResourceAll) {
			return ^marks(0)
		}
		for _, resource := range rules[i].Resources {
			all |= markOf(resource)
		}
	}
	return all
}
