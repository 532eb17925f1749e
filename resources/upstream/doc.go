// Package upstream is the one door to what Rowlock changes, copies or takes for granted of Kubernetes' packages beyond
// what they export to be used. Upstream promises none of it, so a new release may change any of it without a word: each has
// a test that fails then, and docs/upgrading.md says what each of those tests means.
//
// Variables of upstream that are set, for the whole process:
//
//	scheme.go      kinds that are added to legacyscheme.Scheme
//	semantic.go    functions that are added to equality.Semantic
//	features.go    gates that are added to the feature gate, and defaults that are other ones
//	privileged.go  whether pods may be privileged
//	log.go         where klog writes to, and how much
//	auditlog.go    how often klog says that events of the audit were not taken, by how upstream begins to say it
//	limits.go      how much a JSON Patch may copy
//	metrics.go     which of its metrics are counted
//	clientmetrics.go  what counts the requests of client-go's clients
//	flowmetrics.go by what a metric of priority and fairness divides
//	crash.go       whether a panic of a controller ends the process
//	tolerations.go how long Pods stay on nodes that are not ready or cannot be reached
//
// What is copied:
//
//	release.go     which release this is
//	plugins.go     the admission plugins, their order, and which are on
//	counters.go    what kube-apiserver counts in packages that keep their counters to themselves, or are not here
//	priorities.go  the order of groups and versions
//	storageversions.go  in which versions kube-apiserver stores what it does not store in the usual one
//	kubelets.go    which addresses of a node it tries
//	limits.go      what kube-apiserver bounds by constants of its own
//
// Memory of upstream that is read without asking:
//
//	quantity.go    the text that a Quantity remembers
//	webhooks.go    the webhook that ImagePolicyWebhook asks, and the audit
//
// What the fast paths (resources/fastpath) know of how the types of the API are made is in shapes_test.go.
//
// What upstream is given nil for, or nothing:
//
//	services.go    the storage behind its rules of Services
//
// resources/admission gives the plugins informers and clients of the types that they ask for, and nil for the rest; its
// TestWhatPluginsAsk says which.
//
// What the layers keep elsewhere is listed in door_test.go, with its reason; that test finds whatever is new.
package upstream
