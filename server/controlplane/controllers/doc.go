// Package controllers has the controllers that run in the server (names.go has the list). Three are its own. Without
// two of these a delete does not end as the API concepts page says: one empties a namespace that is being deleted, the
// other deletes the dependents of deleted objects. The third carries out StorageVersionMigrations. The others are
// kube-controller-manager's (hosts.go, package hosted), in one file for each group of them.
//
// # How they work
//
// One goroutine follows every type of the registry in the store (package follow), and shows each change to the
// controllers. They put the keys of objects that need work into queues, which few workers handle. A worker reads the
// present state, decides, and writes by the rules of the type (resources.Pipeline), under conditions that fail when
// another writer was faster. It therefore does no harm when kube-controller-manager does the same work beside them.
// Failed work is retried at growing intervals and holds up nothing else. While nothing changes, nothing runs: there is no
// resync.
//
// The status of APIServices that have a Service is maintained beside the controllers, whether they run or not
// (availabilities.go): in a cluster that is not kube-controller-manager's work, and it needs no graph.
//
// # The graph
//
// The garbage collector keeps, by uid, the objects that have owners and those that wait for their dependents, and for
// every owner's uid the objects that refer to it. It reads them from the stored bytes, without decoding the objects.
// All other data it reads from the store.
//
// # Invariants
//
//   - When a worker examines an object, the graph has every change that was acknowledged before the change was requested
//     that triggered the examination: work that the feed finds is given to the workers one round late (see
//     garbage.turn). No dependent is missed that existed when the deletion of its owner was requested.
//   - The garbage collector deletes an object only while it has the ownerReferences that were examined. The namespace
//     controller deletes one only while its namespace is the one whose deletion was requested.
//   - An object that cannot be judged because a type is not served, or is served by another server, waits for that type
//     and for nothing else (parked.go).
//     An owner whose dependents are to be orphaned waits for the types of dependents that are not served; otherwise those
//     dependents would be deleted with it.
//
// # Locks
//
// graph.mu and parked.mu are leaves.
//
// # Files
//
// Shared by the controllers:
//
//	names.go        the names of all controllers
//	controllers.go  running them
//	election.go     running them on one server of several
//	feed.go         showing changes to observers
//	queue.go        queues of work, with retries
//	proxied.go      versions that other servers serve
//	hosts.go        controllers from kube-controller-manager's packages
//
// The garbage collector:
//
//	garbage.go        the observer of changes
//	metadata.go       the metadata that it reads of an object
//	graph.go          owners and dependents
//	owner.go          the state of an owner
//	collect.go        judging an object, and deleting it
//	orphan.go         removing references to an owner
//	invalid_owner.go  references that are not valid
//	parked.go         objects that wait for a type to be served
//
// Namespaces:
//
//	namespace.go   namespaces that are being deleted
//	content.go     deleting their content
//	elsewhere.go   deleting their content on other servers
//	conditions.go  their status
//
// Migrations of the storage version:
//
//	migrations.go  following StorageVersionMigrations
//	migrate.go     rewriting the objects of a resource
//
// Controllers of kube-controller-manager:
//
//	aggregation.go      aggregated ClusterRoles
//	authorities.go      authorities that kube-controller-manager publishes with further ones
//	bootstrap.go        bootstrap tokens and cluster-info
//	certificates.go     CertificateSigningRequests
//	jobs.go             Jobs that have finished
//	policystatus.go     the status of ValidatingAdmissionPolicies
//	quotas.go           the status of ResourceQuotas
//	quotas_calm.go      measuring a quota only when no request was admitted just before
//	quotas_measured.go  types for which a quota measures more than their number
//	rootca.go           kube-root-ca.crt
//	trustbundle.go      the ClusterTrustBundle
//	serviceaccounts.go  ServiceAccounts and their Secrets
//
// Beside the controllers:
//
//	availabilities.go  the status of APIServices that have a Service
//	availability.go    checking one APIService
//	remotes.go         whether any APIService has a Service
package controllers
