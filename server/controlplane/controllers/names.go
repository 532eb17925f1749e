package controllers

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
)

// The controllers, by kube-controller-manager's names for them.
const (
	Namespace         = names.NamespaceController
	GarbageCollector  = names.GarbageCollectorController
	RootCA            = names.RootCACertificatePublisherController
	TrustBundle       = names.KubeAPIServerClusterTrustBundlePublisherController
	RequestApproving  = names.CertificateSigningRequestApprovingController
	RequestSigning    = names.CertificateSigningRequestSigningController
	RequestCleaner    = names.CertificateSigningRequestCleanerController
	PodRequestCleaner = names.PodCertificateRequestCleanerController
	// ServiceAccount maintains the ServiceAccount "default" in every namespace.
	ServiceAccount = names.ServiceAccountController
	// ServiceAccountToken maintains the Secrets with tokens of ServiceAccounts.
	ServiceAccountToken = names.ServiceAccountTokenController
	// LegacyTokenCleaner removes such Secrets when they are unused.
	LegacyTokenCleaner = names.LegacyServiceAccountTokenCleanerController
	// ClusterRoleAggregation works whether or not RBAC is one of the authorizers, as in kube-controller-manager.
	ClusterRoleAggregation = names.ClusterRoleAggregationController
	FinishedJobs           = names.TTLAfterFinishedController
	BootstrapSigner        = names.BootstrapSignerController
	BootstrapCleaner       = names.TokenCleanerController
	// PolicyStatus reports type errors in the expressions of ValidatingAdmissionPolicies.
	PolicyStatus = names.ValidatingAdmissionPolicyStatusController
	// ResourceQuota measures the use of quotas.
	ResourceQuota = names.ResourceQuotaController
	// StorageVersionMigrator is the name of the controller's service account, too.
	StorageVersionMigrator = names.StorageVersionMigratorController
)

// kind is a controller that can be enabled.
type kind struct {
	name string
	// alias is the older name that kube-controller-manager accepts as well, if there is one.
	alias string
	// off: "*" does not enable it, as in kube-controller-manager, unless this server accepts the bootstrap tokens that it is for.
	off bool
	// make returns the controller; nil: it has nothing to do on this server.
	make func(Config) controller
}

// fieldManager is the field manager of what the server's own controllers write. In a cluster it is the beginning of kube-controller-manager's
// User-Agent.
const fieldManager = "kube-controller-manager"

// kinds are all controllers. A new one needs an entry here, and either an observer (feed.go) with workers (queue.go) or a
// package of kube-controller-manager's (package hosted).
var kinds = []kind{
	{name: Namespace, alias: "namespace", make: func(c Config) controller { return newNamespaces(c) }},
	{name: GarbageCollector, alias: "garbagecollector", make: func(c Config) controller { return newGarbage(c) }},
	{name: StorageVersionMigrator, alias: "svm", make: func(c Config) controller { return newMigrations(c) }},
	{name: ServiceAccount, alias: "serviceaccount", make: newServiceAccounts},
	{name: ServiceAccountToken, alias: "serviceaccount-token", make: newTokens},
	{name: LegacyTokenCleaner, alias: "legacy-service-account-token-cleaner", make: newTokenCleaner},
	{name: RootCA, alias: "root-ca-cert-publisher", make: newRootCA},
	{name: TrustBundle, make: newTrustBundle},
	{name: RequestApproving, alias: "csrapproving", make: newApproving},
	{name: RequestSigning, alias: "csrsigning", make: newSigning},
	{name: RequestCleaner, alias: "csrcleaner", make: newRequestCleaner},
	{name: PodRequestCleaner, make: newPodRequestCleaner},
	{name: ClusterRoleAggregation, alias: "clusterrole-aggregation", make: newAggregation},
	{name: PolicyStatus, make: newPolicyStatus},
	{name: ResourceQuota, alias: "resourcequota", make: newQuotas},
	{name: FinishedJobs, alias: "ttl-after-finished", make: newFinishedJobs},
	{name: BootstrapSigner, alias: "bootstrapsigner", off: true, make: newBootstrapSigner},
	{name: BootstrapCleaner, alias: "tokencleaner", off: true, make: newBootstrapCleaner},
}

// elsewhere are the names of kube-controller-manager's other controllers, with their aliases.
var elsewhere = []string{
	names.DaemonSetController, "daemonset",
	names.StatefulSetController, "statefulset",
	names.ReplicaSetController, "replicaset",
	names.DeploymentController, "deployment",
	names.HorizontalPodAutoscalerController, "horizontalpodautoscaling",
	names.JobController, "job",
	names.CronJobController, "cronjob",
	names.NodeIpamController, "nodeipam",
	names.NodeLifecycleController, "nodelifecycle",
	names.TaintEvictionController,
	names.DeviceTaintEvictionController,
	names.PersistentVolumeBinderController, "persistentvolume-binder",
	names.PersistentVolumeAttachDetachController, "attachdetach",
	names.PersistentVolumeExpanderController, "persistentvolume-expander",
	names.PersistentVolumeClaimProtectionController, "pvc-protection",
	names.PersistentVolumeProtectionController, "pv-protection",
	names.VolumeAttributesClassProtectionController,
	names.EphemeralVolumeController, "ephemeral-volume",
	names.SELinuxWarningController,
	names.EndpointsController, "endpoint",
	names.EndpointSliceController, "endpointslice",
	names.EndpointSliceMirroringController, "endpointslicemirroring",
	names.ServiceCIDRController,
	names.ReplicationControllerController, "replicationcontroller",
	names.PodGarbageCollectorController, "podgc",
	names.PodGroupProtectionController,
	names.TTLController, "ttl",
	names.DisruptionController, "disruption",
	names.ResourceClaimController, "resource-claim-controller",
	names.ResourcePoolStatusRequestController,
	names.StorageVersionGarbageCollectorController, "storage-version-gc",
}

// Names returns the names of all controllers.
func Names() []string {
	var all []string
	for _, k := range kinds {
		all = append(all, k.name)
	}
	return all
}

// OffByDefault returns the names of the controllers that "*" enables only on a server that accepts bootstrap tokens.
func OffByDefault() []string {
	var all []string
	for _, k := range kinds {
		if k.off {
			all = append(all, k.name)
		}
	}
	return all
}

// Select returns the names of the controllers that a list like kube-controller-manager's --controllers enables. An entry is a
// name, a name after "-" to disable it, or "*" for all that are not named and not off by default. The first entry for a name
// counts. Other controllers of kube-controller-manager can be disabled, but not enabled. bootstrapTokens: the server accepts bootstrap tokens.
func Select(list []string, bootstrapTokens bool) ([]string, error) {
	chosen := map[string]bool{}
	all := false
	for _, entry := range list {
		if entry == "*" {
			all = true
			continue
		}
		name, off := strings.CutPrefix(entry, "-")
		i := slices.IndexFunc(kinds, func(k kind) bool { return name == k.name || name != "" && name == k.alias })
		switch there := slices.Contains(elsewhere, name); {
		case i < 0 && there && off:
			continue // it never runs here
		case i < 0 && there:
			return nil, fmt.Errorf("%q does not run in this server: leave it to a kube-controller-manager", name)
		case i < 0:
			return nil, fmt.Errorf("%q is not in the list of known controllers", name)
		}
		if _, mentioned := chosen[kinds[i].name]; !mentioned {
			chosen[kinds[i].name] = !off
		}
	}
	selected := []string{}
	for _, k := range kinds {
		on, mentioned := chosen[k.name]
		if mentioned && on || !mentioned && all && (!k.off || bootstrapTokens) {
			selected = append(selected, k.name)
		}
	}
	return selected, nil
}
