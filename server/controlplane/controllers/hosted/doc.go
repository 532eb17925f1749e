// Package hosted runs controllers of kube-controller-manager's packages, unchanged, within the server.
//
// Such a controller needs informers and a client. Its informers (Informers) keep nothing: listers read from the Store, and
// the goroutine that shows changes to all controllers calls the handlers. Its client sends requests without leaving the
// process, so that its writes are authorized, admitted and audited as those of its service account.
//
// # Invariants
//
//   - A handler is told of every existing object when it is added, and then of every later change, once and in order. It is
//     added under the lock under which changes are told, with the objects at the revision of the cache; changes up to that
//     revision are not told again. For this, the controller runs only when changes of all types that it follows are observed
//     (Controller.Opened).
//   - A controller runs while there is an object that needs it (Followed.Needs), and restarts when history was lost. An idle
//     server has none of its goroutines and timers, except those of controllers that run always (Options.Always).
//   - When Controller.Work returns, the controller has stopped.
//
// # Locks
//
// Controller.mu, then Informers.mu. Handlers are called under both; they put keys into queues.
package hosted
