package upstream

// AdmissionPlugin is one of kube-apiserver's admission plugins.
type AdmissionPlugin struct {
	Name string
	// On by default.
	On bool
}

// AdmissionPlugins returns all of kube-apiserver's admission plugins in the order in which they run (AllOrderedPlugins), and
// whether they are on by default. The list is in a package that depends on all of kube-apiserver.
func AdmissionPlugins() []AdmissionPlugin {
	return []AdmissionPlugin{
		{"AlwaysAdmit", false},
		{"NamespaceAutoProvision", false},
		{"NamespaceLifecycle", true},
		{"NamespaceExists", false},
		{"LimitPodHardAntiAffinityTopology", false},
		{"LimitRanger", true},
		{"ServiceAccount", true},
		{"NodeRestriction", false},
		{"TaintNodesByCondition", true},
		{"AlwaysPullImages", false},
		{"ImagePolicyWebhook", false},
		{"PodSecurity", true},
		{"PodNodeSelector", false},
		{"Priority", true},
		{"DefaultTolerationSeconds", true},
		{"PodTolerationRestriction", false},
		{"EventRateLimit", false},
		{"ExtendedResourceToleration", false},
		{"DefaultStorageClass", true},
		{"StorageObjectInUseProtection", true},
		{"PodGroupProtection", true},
		{"OwnerReferencesPermissionEnforcement", false},
		{"PersistentVolumeClaimResize", true},
		{"RuntimeClass", true},
		{"CertificateApproval", true},
		{"CertificateSigning", true},
		{"ClusterTrustBundleAttest", true},
		{"CertificateSubjectRestriction", true},
		{"DefaultIngressClass", true},
		{"DenyServiceExternalIPs", false},
		{"PodTopologyLabels", true},
		{"NodeDeclaredFeatureValidator", true},
		{"PodResizeValidator", true},
		{"MutatingAdmissionPolicy", true},
		{"MutatingAdmissionWebhook", true},
		{"ValidatingAdmissionPolicy", true},
		{"ValidatingAdmissionWebhook", true},
		{"ResourceQuota", true},
		{"AlwaysDeny", false},
	}
}
