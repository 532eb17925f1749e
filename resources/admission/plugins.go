// Package admission has kube-apiserver's admission plugins, in its order and under its names.
//
//	plugins.go       the list of plugins and their order; New, which makes the chain
//	configuration.go the configuration of the plugins
//	lifecycle.go     NamespaceLifecycle, which reads the Store
//	storageclass.go  DefaultStorageClass, and protection.go, StorageObjectInUseProtection: upstream's bring volume plugins
//	listers.go       the informers that the plugins from upstream get, whose listers read the Store
//	followers.go     event handlers of such informers, which are brought up to date before a plugin is called
//	derived.go       values computed from all objects of a type, and computed again when one has changed
//	webhooks.go      MutatingAdmissionWebhook and ValidatingAdmissionWebhook; callers.go: the connections to webhooks
//	policies.go      ValidatingAdmissionPolicy and MutatingAdmissionPolicy, whose kinds are policies_validating.go and
//	                 policies_mutating.go; params.go has the parameters of policies
//	manifests.go     policies in files, besides the stored ones
//	selections.go    the webhooks or policies that may apply to a write
//	quota.go         the measurement of the use of resources for ResourceQuota
package admission

import (
	"fmt"
	"io"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	webhookinitializer "k8s.io/apiserver/pkg/admission/plugin/webhook/initializer"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/featuregate"
	kubeadmission "k8s.io/kubernetes/pkg/kubeapiserver/admission"
	"k8s.io/kubernetes/plugin/pkg/admission/admit"
	"k8s.io/kubernetes/plugin/pkg/admission/alwayspullimages"
	"k8s.io/kubernetes/plugin/pkg/admission/antiaffinity"
	"k8s.io/kubernetes/plugin/pkg/admission/certificates/approval"
	"k8s.io/kubernetes/plugin/pkg/admission/certificates/ctbattest"
	"k8s.io/kubernetes/plugin/pkg/admission/certificates/signing"
	"k8s.io/kubernetes/plugin/pkg/admission/certificates/subjectrestriction"
	"k8s.io/kubernetes/plugin/pkg/admission/defaulttolerationseconds"
	"k8s.io/kubernetes/plugin/pkg/admission/deny"
	"k8s.io/kubernetes/plugin/pkg/admission/eventratelimit"
	"k8s.io/kubernetes/plugin/pkg/admission/extendedresourcetoleration"
	"k8s.io/kubernetes/plugin/pkg/admission/gc"
	"k8s.io/kubernetes/plugin/pkg/admission/limitranger"
	"k8s.io/kubernetes/plugin/pkg/admission/namespace/autoprovision"
	"k8s.io/kubernetes/plugin/pkg/admission/namespace/exists"
	"k8s.io/kubernetes/plugin/pkg/admission/network/defaultingressclass"
	"k8s.io/kubernetes/plugin/pkg/admission/network/denyserviceexternalips"
	"k8s.io/kubernetes/plugin/pkg/admission/nodedeclaredfeatures"
	"k8s.io/kubernetes/plugin/pkg/admission/noderestriction"
	"k8s.io/kubernetes/plugin/pkg/admission/nodetaint"
	"k8s.io/kubernetes/plugin/pkg/admission/podnodeselector"
	"k8s.io/kubernetes/plugin/pkg/admission/podresize"
	"k8s.io/kubernetes/plugin/pkg/admission/podtolerationrestriction"
	"k8s.io/kubernetes/plugin/pkg/admission/podtopologylabels"
	"k8s.io/kubernetes/plugin/pkg/admission/priority"
	"k8s.io/kubernetes/plugin/pkg/admission/runtimeclass"
	"k8s.io/kubernetes/plugin/pkg/admission/scheduling/podgroupprotection"
	"k8s.io/kubernetes/plugin/pkg/admission/security/podsecurity"
	"k8s.io/kubernetes/plugin/pkg/admission/serviceaccount"
	"k8s.io/kubernetes/plugin/pkg/admission/storage/persistentvolume/resize"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/upstream"
)

// Config has the dependencies of the plugins.
type Config struct {
	Store    resources.View
	Registry *resources.Registry
	// Client reaches the API within the process, for the few plugins that read again or write (ResourceQuota).
	Client   kubernetes.Interface
	Features featuregate.FeatureGate
	// Enable and Disable name plugins to be turned on or off, as kube-apiserver's flags --enable-admission-plugins and
	// --disable-admission-plugins do.
	Enable, Disable []string
	// Configuration is the configuration of the plugins, by name; see ReadConfiguration. Nil: none is configured.
	Configuration admission.ConfigProvider
	// Identity is the server's identity among the members of its database, a label of the metrics of manifests.
	Identity string
	// Authorizer is the authorizer for expressions. Nil: everything is allowed.
	Authorizer authorizer.UnconditionalAuthorizer
	// Services resolves the address of a webhook behind a Service.
	Services webhook.ServiceResolver
	// Loopback reaches the server within the process, for the server's own webhooks.
	Loopback http.RoundTripper
	// Observe wraps a plugin, whose name it gets. May be nil.
	Observe func(plugin admission.Interface, name string) admission.Interface
	// Stop ends the workers that ResourceQuota starts on first use.
	Stop <-chan struct{}
}

// plugin is one of kube-apiserver's plugins.
type plugin struct {
	upstream.AdmissionPlugin
	// register registers it with upstream's chain.
	register func(*admission.Plugins)
}

// own registers a plugin of this package.
func own(name string, make func() admission.Interface) func(*admission.Plugins) {
	return func(ps *admission.Plugins) {
		ps.Register(name, func(io.Reader) (admission.Interface, error) { return make(), nil })
	}
}

// registrations are the registrations of all plugins, by name.
func registrations(c Config, f *storeInformers) map[string]func(*admission.Plugins) {
	return map[string]func(*admission.Plugins){
		"AlwaysAdmit":                          admit.Register,
		"NamespaceAutoProvision":               autoprovision.Register,
		"NamespaceLifecycle":                   own("NamespaceLifecycle", func() admission.Interface { return NamespaceLifecycle{Store: c.Store} }),
		"NamespaceExists":                      exists.Register,
		"LimitPodHardAntiAffinityTopology":     antiaffinity.Register,
		"LimitRanger":                          limitranger.Register,
		"ServiceAccount":                       serviceaccount.Register,
		"NodeRestriction":                      noderestriction.Register,
		"TaintNodesByCondition":                nodetaint.Register,
		"AlwaysPullImages":                     alwayspullimages.Register,
		"ImagePolicyWebhook":                   imagePolicy,
		"PodSecurity":                          podsecurity.Register,
		"PodNodeSelector":                      podnodeselector.Register,
		"Priority":                             priority.Register,
		"DefaultTolerationSeconds":             defaulttolerationseconds.Register,
		"PodTolerationRestriction":             podtolerationrestriction.Register,
		"EventRateLimit":                       eventratelimit.Register,
		"ExtendedResourceToleration":           extendedresourcetoleration.Register,
		"DefaultStorageClass":                  own("DefaultStorageClass", func() admission.Interface { return &DefaultStorageClass{} }),
		"StorageObjectInUseProtection":         own("StorageObjectInUseProtection", func() admission.Interface { return StorageObjectInUseProtection{} }),
		"PodGroupProtection":                   podgroupprotection.Register,
		"OwnerReferencesPermissionEnforcement": gc.Register,
		"PersistentVolumeClaimResize":          resize.Register,
		"RuntimeClass":                         runtimeclass.Register,
		"CertificateApproval":                  approval.Register,
		"CertificateSigning":                   signing.Register,
		"ClusterTrustBundleAttest":             ctbattest.Register,
		"CertificateSubjectRestriction":        subjectrestriction.Register,
		"DefaultIngressClass":                  defaultingressclass.Register,
		"DenyServiceExternalIPs":               denyserviceexternalips.Register,
		"PodTopologyLabels":                    podtopologylabels.Register,
		"NodeDeclaredFeatureValidator":         nodedeclaredfeatures.Register,
		"PodResizeValidator":                   podresize.Register,
		"MutatingAdmissionPolicy":              f.mutatingPolicies,
		"MutatingAdmissionWebhook":             f.mutatingWebhooks,
		"ValidatingAdmissionPolicy":            f.validatingPolicies,
		"ValidatingAdmissionWebhook":           f.validatingWebhooks,
		quotaPlugin:                            resourcequota.Register,
		"AlwaysDeny":                           deny.Register,
	}
}

// ordered are the plugins in the order in which they run.
func ordered(c Config, f *storeInformers) []plugin {
	known := registrations(c, f)
	var plugins []plugin
	for _, p := range upstream.AdmissionPlugins() {
		plugins = append(plugins, plugin{p, known[p.Name]})
	}
	return plugins
}

// Names are all of kube-apiserver's plugins in their order.
func Names() []string {
	var names []string
	for _, p := range upstream.AdmissionPlugins() {
		names = append(names, p.Name)
	}
	return names
}

// New returns the chain of the enabled plugins. Errors: an unknown name.
func New(c Config) (admission.Interface, error) {
	known := sets.New(Names()...)
	for _, name := range slices.Concat(c.Enable, c.Disable) {
		if !known.Has(name) {
			return nil, fmt.Errorf("admission plugin %q is unknown", name)
		}
	}
	plugins, informers := admission.NewPlugins(), newInformers(c.Store, c.Registry)
	var names []string
	for _, p := range ordered(c, informers) {
		on := (p.On || slices.Contains(c.Enable, p.Name)) && !slices.Contains(c.Disable, p.Name)
		if !on {
			continue
		}
		p.register(plugins)
		names = append(names, p.Name)
	}
	quotas, err := newQuotas(informers)
	if err != nil {
		return nil, err
	}
	if c.Configuration == nil {
		c.Configuration = unconfigured{}
	}
	decorators := admission.Decorators{admission.DecoratorFunc(countingOnce)}
	if c.Observe != nil {
		decorators = append(decorators, admission.DecoratorFunc(c.Observe))
	}
	return plugins.NewFromPlugins(names, c.Configuration, admission.PluginInitializers{
		initializer.NewAPIServerIDInitializer(c.Identity), // first: other initializers use it for metrics
		initializer.New(c.Client, nil, informers, c.authorizer(), c.Features, compatibility.DefaultBuildEffectiveVersion(), c.Stop, resources.Mapper{Registry: c.Registry}),
		kubeadmission.NewPluginInitializer(),
		quotaInitializer{quotas},
		webhookinitializer.NewPluginInitializer(c.credentials, c.Services),
		exclusions{},
	}, decorators)
}

// unconfigured is the configuration of plugins without one.
type unconfigured struct{}

func (unconfigured) ConfigFor(string) (io.Reader, error) { return nil, nil }
