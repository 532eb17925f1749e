// Package hosted runs controllers of kube-controller-manager's packages, as they are, within the server.
//
// Such a controller wants informers and a client. Its informers (Informers) keep nothing: what listers say is read from the
// Store, and handlers are told by the one goroutine that shows changes to all controllers. Its client sends requests without leaving
// the process, so that what it writes is authorized, admitted and audited as what its service account writes.
//
// # Invariants
//
//   - A handler is told of every object that there is when it is added, and then of every change after that, once and in order:
//     it is added under the lock under which changes are told, with the objects at the revision of the cache, and what was changed
//     up to that revision is not told again. For that, it runs only when changes of all types that it follows are observed
//     (Controller.Opened).
//   - A controller runs while there is an object that it has something to do with (Followed.Needs), and from anew when history was
//     lost: an idle server has none of its goroutines and timers, but for those that say that they always have something to do.
//   - When Controller.Work returns, the controller has stopped.
//
// # Locks
//
// Controller.mu, then Informers.mu. Handlers are called under both; they put keys into queues.
package hosted
