// Package sqlstore is resources.Store on a SQL database.
//
// # The way of a write
//
// Commit puts a request into the queue and waits. The committer (one goroutine) takes everything that waits, up to a
// bound, and plans it: each request is checked against the state before the batch and what the batch has done so far;
// one that fails is answered and leaves nothing behind. What is planned goes to the database in one transaction. After
// COMMIT, apply makes it visible: trees and logs first, then the store's revision, then watchers are woken. Then the
// requests are answered. So revision order is commit order is event order, and a writer reads its own writes.
//
// # State
//
// A collection is one resource type: an immutable tree of its current objects, replaced by every batch that changes it,
// and the log of its latest changes. All logs together are bounded in bytes (logBudget); older changes are read from
// the table changes, until they are pruned. The floor is the revision up to which changes may be gone.
//
// A watch is a cursor: how far it has come, and the last revision at which something may wait for it. A watcher that
// has caught up costs nothing until a change that it wants to see is brought to it; it does not look at what lies
// between.
//
// # Invariants
//
//   - Everything up to revisions.current is in the trees and the logs. Trees and logs may hold a batch beyond it for
//     the moment that apply takes; reads wait for it to be over, cursors stop short of it.
//   - A collection's log holds every change with logStart < revision <= tree.last.
//   - The floor in memory is never below the one in the database. A read of history takes the floor from the same
//     statement, so that it cannot miss what was pruned meanwhile.
//   - A tree that was stored in collection.tree is never changed.
//   - collection.watchers has every watch that is not closed. An event that a watch wants and that is after both its
//     cursor and its newest is not visible yet, or about to be brought to it by wake.
//
// # Locks
//
// collection.mu guards the log and the watches of a collection, and orders changes of the tree pointer. Inside it
// nothing is locked. revisions.mu, pasts.mu, queue.mu and janitor.mu are leaves as well. No lock is held over a
// statement to the database.
//
// # Goroutines
//
// The committer owns the connection that writes, the log budget and the plan. The janitor prunes, expires and gives
// space back, by tasks that the committer runs between batches; it has a timer only when something is due. Close ends
// both.
package sqlstore
