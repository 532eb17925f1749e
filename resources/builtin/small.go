package builtin

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/apis/coordination"
	"k8s.io/kubernetes/pkg/apis/discovery"
	"k8s.io/kubernetes/pkg/apis/node"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	"k8s.io/kubernetes/pkg/apis/storagemigration"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/registry/coordination/lease"
	"k8s.io/kubernetes/pkg/registry/discovery/endpointslice"
	"k8s.io/kubernetes/pkg/registry/node/runtimeclass"
	"k8s.io/kubernetes/pkg/registry/scheduling/priorityclass"
	svm "k8s.io/kubernetes/pkg/registry/storagemigration/storagemigration"

	"github.com/rowlock/rowlock/resources"
)

// The groups with one served type.

func coordinationGroup() resources.GroupSpec {
	v1 := schema.GroupVersion{Group: "coordination.k8s.io", Version: "v1"}
	return single(v1, define[coordination.Lease, coordination.LeaseList](v1, "leases", lease.Strategy))
}

func discoveryGroup(endpointSlices *resources.Type) resources.GroupSpec {
	return single(discoveryV1, endpointSlices)
}

var discoveryV1 = schema.GroupVersion{Group: "discovery.k8s.io", Version: "v1"}

func endpointSlices() *resources.Type {
	return define[discovery.EndpointSlice, discovery.EndpointSliceList](discoveryV1, "endpointslices", endpointslice.Strategy)
}

func nodeGroup() resources.GroupSpec {
	v1 := schema.GroupVersion{Group: "node.k8s.io", Version: "v1"}
	return single(v1, define[node.RuntimeClass, node.RuntimeClassList](v1, "runtimeclasses", runtimeclass.Strategy))
}

func schedulingGroup() resources.GroupSpec {
	v1 := schema.GroupVersion{Group: "scheduling.k8s.io", Version: "v1"}
	return single(v1,
		define[scheduling.PriorityClass, scheduling.PriorityClassList](v1, "priorityclasses", priorityclass.Strategy,
			short("pc"), keepSystemClasses))
}

func storagemigrationGroup() resources.GroupSpec {
	v1 := schema.GroupVersion{Group: "storagemigration.k8s.io", Version: "v1"}
	return single(v1, gated(features.StorageVersionMigrator,
		define[storagemigration.StorageVersionMigration, storagemigration.StorageVersionMigrationList](v1, "storageversionmigrations",
			svm.Strategy, status(svm.StatusStrategy)))...)
}
