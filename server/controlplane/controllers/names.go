package controllers

import (
	"fmt"
	"slices"
	"strings"
)

// The controllers, by the names that kube-controller-manager has for them.
const (
	Namespace        = "namespace-controller"
	GarbageCollector = "garbage-collector-controller"
	// StorageVersionMigrator is the name of its service account, too.
	StorageVersionMigrator = "storage-version-migrator-controller"
)

// aliases are the older names that kube-controller-manager accepts as well.
var aliases = map[string]string{"namespace": Namespace, "garbagecollector": GarbageCollector, "svm": StorageVersionMigrator}

// Names returns the names of all controllers.
func Names() []string { return []string{Namespace, GarbageCollector, StorageVersionMigrator} }

// Select returns the names of the controllers that a list like kube-controller-manager's --controllers turns on: a name,
// a name after "-" for one that is off, "*" for all that are not named. The first mention of a name counts.
func Select(list []string) ([]string, error) {
	chosen := map[string]bool{}
	all := false
	for _, entry := range list {
		if entry == "*" {
			all = true
			continue
		}
		name, off := strings.CutPrefix(entry, "-")
		if canonical, ok := aliases[name]; ok {
			name = canonical
		}
		if !slices.Contains(Names(), name) {
			return nil, fmt.Errorf("%q is not in the list of known controllers", name)
		}
		if _, mentioned := chosen[name]; !mentioned {
			chosen[name] = !off
		}
	}
	return slices.DeleteFunc(Names(), func(name string) bool {
		on, mentioned := chosen[name]
		return mentioned && !on || !mentioned && !all
	}), nil
}
