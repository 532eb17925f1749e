package upstream

import "k8s.io/apimachinery/pkg/runtime/schema"

// StorageVersions are the versions in which kube-apiserver stores objects of some types, instead of the one that a
// group prefers. Clients see a hash of it in discovery. The list is in a package that depends on all of kube-apiserver,
// except for CustomResourceDefinitions: their server has the version in a codec.
var StorageVersions = map[schema.GroupResource]string{
	{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}:   "v1beta1",
	{Group: "certificates.k8s.io", Resource: "clustertrustbundles"}:          "v1beta1",
	{Group: "certificates.k8s.io", Resource: "podcertificaterequests"}:       "v1beta1",
	{Group: "coordination.k8s.io", Resource: "leasecandidates"}:              "v1beta1",
	{Group: "lifecycle.k8s.io", Resource: "evictionrequests"}:                "v1alpha1",
	{Group: "lifecycle.k8s.io", Resource: "evictions"}:                       "v1alpha1",
	{Group: "resource.k8s.io", Resource: "devicetaintrules"}:                 "v1beta2",
	{Group: "resource.k8s.io", Resource: "resourcepoolstatusrequests"}:       "v1alpha3",
	{Group: "scheduling.k8s.io", Resource: "compositepodgroups"}:             "v1alpha3",
	{Group: "scheduling.k8s.io", Resource: "podgroups"}:                      "v1beta1",
	{Group: "scheduling.k8s.io", Resource: "workloads"}:                      "v1beta1",
	{Group: "storagemigration.k8s.io", Resource: "storageversionmigrations"}: "v1beta1",
}
