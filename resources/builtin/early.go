package builtin

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/apis/apiserverinternal"
	"k8s.io/kubernetes/pkg/apis/coordination"
	"k8s.io/kubernetes/pkg/apis/lifecycle"
	resourceapi "k8s.io/kubernetes/pkg/apis/resource"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/registry/apiserverinternal/storageversion"
	"k8s.io/kubernetes/pkg/registry/coordination/leasecandidate"
	evictionobject "k8s.io/kubernetes/pkg/registry/lifecycle/eviction"
	"k8s.io/kubernetes/pkg/registry/lifecycle/evictionrequest"
	"k8s.io/kubernetes/pkg/registry/resource/resourcepoolstatusrequest"
	"k8s.io/kubernetes/pkg/registry/scheduling/compositepodgroup"
	"k8s.io/kubernetes/pkg/registry/scheduling/podgroup"
	"k8s.io/kubernetes/pkg/registry/scheduling/workload"
	"k8s.io/utils/clock"

	"github.com/rowlock/rowlock/resources"
)

// withEarlyVersions adds the alpha and beta versions, which are served only on request: those of types that have a
// stable version, and the types that have none yet. Versions that this release of Kubernetes has removed are known and
// serve nothing.
func withEarlyVersions(groups []resources.GroupSpec) []resources.GroupSpec {
	early := []struct {
		group, version string
		resources      []string
	}{
		{"admissionregistration.k8s.io", "v1beta1", []string{"mutatingadmissionpolicies", "mutatingadmissionpolicybindings"}},
		{"admissionregistration.k8s.io", "v1alpha1", []string{"mutatingadmissionpolicies", "mutatingadmissionpolicybindings"}},
		{"certificates.k8s.io", "v1beta1", []string{"clustertrustbundles", "podcertificaterequests"}},
		{"resource.k8s.io", "v1beta2", []string{"deviceclasses", "devicetaintrules", "resourceclaims", "resourceclaimtemplates", "resourceslices"}},
		{"resource.k8s.io", "v1beta1", []string{"deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"}},
		{"resource.k8s.io", "v1alpha3", []string{"devicetaintrules"}},
		{"storagemigration.k8s.io", "v1beta1", []string{"storageversionmigrations"}},
	}
	for i := range groups {
		stable := groups[i].Versions[0].Types
		for _, e := range early {
			if e.group == groups[i].Name {
				types := slices.DeleteFunc(slices.Clone(stable), func(t *resources.Type) bool { return !slices.Contains(e.resources, t.Resource) })
				groups[i].Versions = append(groups[i].Versions, version(schema.GroupVersion{Group: e.group, Version: e.version}, types...))
			}
		}
		groups[i].Versions = withUnstableTypes(groups[i])
	}
	storageVersions := schema.GroupVersion{Group: "internal.apiserver.k8s.io", Version: "v1alpha1"}
	return append(groups, lifecycleGroup(), single(storageVersions,
		define[apiserverinternal.StorageVersion, apiserverinternal.StorageVersionList](storageVersions, "storageversions",
			storageversion.Strategy, status(storageversion.StatusStrategy))))
}

// withUnstableTypes adds to the versions of a group the types that have no stable version.
func withUnstableTypes(g resources.GroupSpec) []resources.VersionSpec {
	gv := func(version string) schema.GroupVersion { return schema.GroupVersion{Group: g.Name, Version: version} }
	switch g.Name {
	case "coordination.k8s.io":
		candidates := define[coordination.LeaseCandidate, coordination.LeaseCandidateList](gv("v1beta1"), "leasecandidates", leasecandidate.Strategy,
			selectBy(leasecandidate.GetAttrs))
		return append(g.Versions, version(gv("v1beta1"), candidates), version(gv("v1alpha2"), candidates))
	case "resource.k8s.io":
		last := &g.Versions[len(g.Versions)-1] // v1alpha3
		last.Types = append(last.Types, define[resourceapi.ResourcePoolStatusRequest, resourceapi.ResourcePoolStatusRequestList](
			gv(last.Version), "resourcepoolstatusrequests", resourcepoolstatusrequest.Strategy, returnsDeleted,
			statusWithoutTable(resourcepoolstatusrequest.StatusStrategy)))
	case "scheduling.k8s.io":
		both := gated(features.GenericWorkload, workloads(gv("v1beta1")), podGroups(gv("v1beta1")))
		return append(g.Versions, version(gv("v1beta1"), both...),
			version(gv("v1alpha3"), append(both, gated(features.CompositePodGroup, compositePodGroups(gv("v1alpha3")))...)...))
	}
	return g.Versions
}

// gated returns the types if a feature is on.
func gated(feature featuregate.Feature, types ...*resources.Type) []*resources.Type {
	if !utilfeature.DefaultFeatureGate.Enabled(feature) {
		return nil
	}
	return types
}

func workloads(gv schema.GroupVersion) *resources.Type {
	return define[scheduling.Workload, scheduling.WorkloadList](gv, "workloads", workload.Strategy)
}

func podGroups(gv schema.GroupVersion) *resources.Type {
	s := podgroup.NewStrategy()
	return define[scheduling.PodGroup, scheduling.PodGroupList](gv, "podgroups", s, statusWithoutTable(podgroup.NewStatusStrategy(s)))
}

func compositePodGroups(gv schema.GroupVersion) *resources.Type {
	s := compositepodgroup.NewStrategy()
	return define[scheduling.CompositePodGroup, scheduling.CompositePodGroupList](gv, "compositepodgroups", s,
		statusWithoutTable(compositepodgroup.NewStatusStrategy(s)))
}

func lifecycleGroup() resources.GroupSpec {
	v1alpha1 := schema.GroupVersion{Group: "lifecycle.k8s.io", Version: "v1alpha1"}
	evictions, requests := evictionobject.NewStrategy(clock.RealClock{}), evictionrequest.NewStrategy()
	return single(v1alpha1, gated(features.EvictionRequestAPI,
		define[lifecycle.Eviction, lifecycle.EvictionList](v1alpha1, "evictions", evictions, status(evictionobject.NewStatusStrategy(evictions))),
		define[lifecycle.EvictionRequest, lifecycle.EvictionRequestList](v1alpha1, "evictionrequests", requests,
			status(evictionrequest.NewStatusStrategy(requests))))...)
}
