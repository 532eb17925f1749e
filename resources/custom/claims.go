package custom

import (
	"cmp"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"

	"github.com/rowlock/rowlock/resources"
)

// claimedBy are the versions that a definition would serve, whether it is established or not: each has an APIService as long as the
// definition exists.
func claimedBy(crd *apiextensionsv1.CustomResourceDefinition) (versions []string) {
	if reserved(crd.Spec.Group) {
		return nil
	}
	for _, v := range crd.Spec.Versions {
		if v.Served {
			versions = append(versions, v.Name)
		}
	}
	return versions
}

// Claimed returns the versions that definitions would serve, whether they are established or not, except for built-in ones; in their order,
// with the priorities of custom resources.
func (d *Definitions) Claimed() []resources.GroupSpec {
	d.mu.Lock()
	defer d.mu.Unlock()
	byGroup := map[string][]string{}
	for _, def := range d.byName {
		for _, version := range def.claimed {
			if d.hasAPIService(def.gv(version)) {
				byGroup[def.group] = append(byGroup[def.group], version)
			}
		}
	}
	groups := make([]resources.GroupSpec, 0, len(byGroup))
	for name, versions := range byGroup {
		g := resources.GroupSpec{Name: name, Priority: groupPriority}
		slices.Sort(versions)
		for _, version := range slices.Compact(versions) {
			g.Versions = append(g.Versions, resources.VersionSpec{Version: version, Priority: versionPriority})
		}
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(a, b resources.GroupSpec) int { return cmp.Compare(a.Name, b.Name) })
	return groups
}

// hasAPIService reports whether a version has an APIService because definitions claim it. A built-in version has its own, and a version
// whose name no APIService can have has none.
func (d *Definitions) hasAPIService(gv schema.GroupVersion) bool {
	return !d.builtin[gv] && len(utilvalidation.IsDNS1035Label(gv.Version)) == 0
}

// Broken reports whether a resource belongs to a definition that has its names but cannot be served, because its conversion webhook
// cannot be called. kube-apiserver answers for the resource then, but cannot serve it.
func (d *Definitions) Broken(gvr schema.GroupVersionResource) (broken, namespaced bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	def := d.byName[gvr.GroupResource().String()]
	if def == nil || !def.broken || d.builtin[gvr.GroupVersion()] || !slices.Contains(def.claimed, gvr.Version) {
		return false, false
	}
	return true, def.namespaced
}
