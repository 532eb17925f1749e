// Package controllers has the controllers that run in the server (names.go has the list). Three are its own: two
// without which a delete does not end as the API concepts page says (one empties a namespace that is being deleted, the other deletes
// what belonged to objects that are gone), and one that carries out StorageVersionMigrations. The others are kube-controller-manager's (hosts.go, package hosted), with a file for those of a kind.
//
// # How they work
//
// Every type of the registry is followed in the store (package follow), by one goroutine, which shows each change to the
// controllers. What a change makes necessary goes into queues of keys, and few workers do it: they read the present state,
// decide, and change it by the rules of the type (resources.Pipeline) under conditions that fail when another writer was
// faster. So it does no harm when kube-controller-manager does the same work beside them. What
// fails is repeated later and later and holds up nothing else. When nothing changes, nothing runs: there is no resync.
//
// Beside them, and whether they run or not, the status of APIServices that have a Service is kept (availabilities.go): that is not
// kube-controller-manager's, and needs no graph.
//
// # The graph
//
// The garbage collector keeps the objects that have owners, and those that wait for their dependents, by uid, and for
// every uid who refers to it. It is read from the stored bytes; no object is decoded for it. All else it asks the store.
//
// # Invariants
//
//   - When a worker looks at an object, the graph has every change that was acknowledged before the change which made
//     the look necessary was asked for: what the feed finds necessary it gives to the workers one round late (see
//     garbage.turn). So no dependent is missed that existed when its owner's deletion was asked for.
//   - An object is deleted for its owners' sake only while its ownerReferences are those that were judged, and in a
//     namespace only while that is the namespace whose deletion was asked for.
//   - What cannot be judged because a type is not served waits for that type and for nothing else (parked.go). An owner whose
//     dependents are to be orphaned waits for those that are not served, or they would go with it.
//
// # Locks
//
// graph.mu and parked.mu are leaves.
//
// # Files
//
// What controllers are made of:
//
//	names.go        the controllers that there can be, by their names
//	controllers.go  running them
//	election.go     on one server of several
//	feed.go         showing changes to those who follow them
//	queue.go        what is to be done, and repeated
//	hosts.go        those from kube-controller-manager's packages
//
// The garbage collector:
//
//	garbage.go        what it follows
//	metadata.go       what it reads of an object
//	graph.go          who belongs to whom
//	owner.go          what has become of an owner
//	collect.go        judging an object, and deleting it
//	orphan.go         taking references to an owner away
//	invalid_owner.go  references that no object can have
//	parked.go         what waits for a type to be served
//
// Namespaces:
//
//	namespace.go   those that are being deleted
//	content.go     deleting what is in them
//	elsewhere.go   what other servers have in them
//	conditions.go  what their status says
//
// Migrations of the storage version:
//
//	migrations.go  following StorageVersionMigrations
//	migrate.go     writing the objects of a resource again
//
// Those of kube-controller-manager:
//
//	aggregation.go      ClusterRoles made of others
//	bootstrap.go        bootstrap tokens and cluster-info
//	certificates.go     CertificateSigningRequests
//	jobs.go             Jobs that have finished
//	policystatus.go     the status of ValidatingAdmissionPolicies
//	quotas.go           the status of ResourceQuotas
//	quotas_calm.go      a quota is measured when nobody was let in just now
//	quotas_measured.go  types of which more is measured than a number
//	rootca.go           kube-root-ca.crt
//	trustbundle.go      the ClusterTrustBundle
//	serviceaccounts.go  ServiceAccounts and their Secrets
//
// Beside the controllers:
//
//	availabilities.go  the status of APIServices that have a Service
//	availability.go    judging one
//	remotes.go         whether there is any
package controllers
