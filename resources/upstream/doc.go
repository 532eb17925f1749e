// Package upstream collects everything in Kubernetes' packages that Rowlock changes, copies or takes for granted beyond the use
// that they are exported for. Upstream promises none of it, so a new release may change any of it without notice: each has a test
// that fails then, and docs/upgrading.md explains each of those tests.
//
// Variables of upstream that are set, for the whole process:
//
//	scheme.go      kinds that are added to legacyscheme.Scheme
//	semantic.go    functions that are added to equality.Semantic
//	features.go    gates that are added to the feature gate, and changed defaults; whether its histograms are native ones, too
//	privileged.go  whether pods may be privileged, and the rate of connections that are passed on
//	log.go         the destination and the verbosity of klog
//	auditlog.go    how often klog reports that events of the audit were not taken, recognised by the beginning of upstream's text
//	limits.go      how much a JSON Patch may copy
//	metrics.go     which of its metrics are counted, and their reset
//	clientmetrics.go  the counters of the requests of client-go's clients
//	flowmetrics.go the divisor of a metric of priority and fairness
//	crash.go       whether a panic of a controller ends the process
//	tolerations.go how long Pods stay on nodes that are not ready or cannot be reached
//
// Copies of what upstream does not export, or not without its dependencies:
//
//	release.go     the release of Kubernetes
//	plugins.go     the admission plugins, their order, and which are on
//	counters.go    counters that kube-apiserver's packages do not export, or whose packages are not linked
//	priorities.go  the order of groups and versions
//	storageversions.go  the storage versions of kube-apiserver that are not the usual ones
//	etcdkeys.go    the keys in etcd that do not begin with the name of the resource
//	kubelets.go    the addresses of a node that it tries
//	flows.go       the configuration of priority and fairness, of which New takes a part
//	limits.go      bounds that are unexported constants of kube-apiserver
//	histograms.go  the number and the width of the buckets of native histograms
//
// Memory of upstream that is read or changed past its interfaces:
//
//	quantity.go    the text that a Quantity caches, and which quantities take minutes
//	webhooks.go    the webhook of ImagePolicyWebhook, and of the audit
//	workqueues.go  the work queues of its controllers, which are replaced
//	tokencache.go  the metrics of its caches of tokens, from its registry
//
// The assumptions of the fast paths (resources/fastpath) about the API's Go types are in shapes_test.go.
//
// Upstream code that is given nil or an empty implementation:
//
//	services.go    the storage behind its rules of Services
//
// resources/admission gives the plugins informers and clients of the types that they ask for, and nil for the rest; its
// TestWhatPluginsAsk lists these. Controllers get as little: TestWhatControllersAsk of server/controlplane/controllers.
//
// door_test.go lists the dependencies that other packages keep elsewhere, with the reasons; it finds new ones.
package upstream
