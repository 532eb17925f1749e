package authz

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// marks is a set of resources in one word, by the names that rules use (pods, pods/log, */scale). Sets without a common bit have no common
// resource; sets with one may have none either.
type marks uint64

// markOf returns the set of one resource.
func markOf(resource string) marks {
	hash := uint32(2166136261) // FNV-1a
	for i := range len(resource) {
		hash = (hash ^ uint32(resource[i])) * 16777619
	}
	return 1 << (hash >> 26)
}

// marksOf returns the set of resources that rules name; it has all bits when a rule names all resources.
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
