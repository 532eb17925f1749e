// Package sqlstore implements resources.Store on a SQL database.
//
// # The path of a write
//
// Commit puts a request into the queue and waits. The committer (one goroutine) takes all waiting requests, up to a
// bound; if there were other writers, it first waits a moment for them (queue). batchBuilder checks each request
// against the state before the batch and the changes of the batch so far; a request that fails leaves nothing behind.
// An Expect is answered there, from memory, and does not go to the database. The accepted requests go to the database
// in one transaction. After COMMIT, apply makes the batch visible: it updates trees and logs, then the store's
// revision, then announces the changes to watches. Then all requests are answered, those that failed too. So revision
// order is commit order is event order, a writer reads its own writes, and a writer that gets a conflict reads the
// conflicting change. A separate goroutine wakes watchers, a slice at a time, so that no writer waits for ten thousand
// of them.
//
// The queue does not accept what a database would refuse. If the database refuses part of a batch nevertheless, each
// request is committed alone, so that no request fails because of another client's request.
//
// # Peers
//
// In Postgres, many servers write to one database. There a batch begins by locking the row of meta, under which
// revisions are assigned, and by reading what other servers wrote (the page of the log after the cache's position).
// That page is applied to the cache before any request is checked, so each request is checked against exactly the state
// that it is committed to. Both are one round trip; writing, NOTIFY and COMMIT are the second. The row is locked and
// not updated: the counter is the last revision of the log, or the floor if the log is empty. An update would leave a
// dead version with every batch, and all transactions have to pass those while a snapshot is kept open. Only while
// servers of schema version 1 may be running, which keep the counter in meta.revision, is it raised there as well;
// otherwise that column is NULL (postgresDriver.modernize).
//
// A listener wakes on notifications and catches up from the log; without a notification it looks every limits.poll.
// Transactions that notify commit one after the other in the whole cluster, so a batch notifies only when the table
// servers has another server. A server that begins to listen writes its row, then awaits the batch that holds the lock,
// then reads the log: each batch either has seen the row, or is read. A read at "most recent" learns the counter, in a
// query that all waiting readers share, and catches up to it, unless the cache is there already or the committer brings
// it there. The log is read in pages of whole transactions (their rows have the same xmin), each of which stays in the
// cache when the next one fails. The outcome of a COMMIT whose answer was lost is looked up by the transaction's number
// and in the log.
//
// A position is a revision and the time of its commit. A page that does not continue the position (the counter went
// back, another change has the revision, or meta.origin is not the cluster, timeline and table that it was read from)
// means that the database was restored or a replica took over: heal makes the counter jump ahead, puts the floor there,
// and loads the cache again.
//
// A server's knowledge of the other servers, and the lock that elects the server whose controllers work, depend on the
// listener's connection: see Session. The statement that checks their state also looks for new changes in the log.
//
// See jumpTo for where the counter jumps to. Pages of history, which watches and past lists read through a pool, are
// taken only from the origin that the cache was read from (origin): a connection may lead to a primary that was
// replaced.
//
// A promoted replica counts as one that lost commits, also after a planned switchover: whether it has all commits that
// any server has acknowledged or shown cannot be read from it, and the server that could tell may be gone.
//
// Nothing is read from or written to a primary whose timeline is lower than one seen before in the same cluster
// (checked when a connection is made, in each page, and in each transaction of the object history; timelines): it was
// replaced, and does not know it.
//
// # State
//
// A collection is one resource type: an immutable tree of its current objects, replaced by every batch that changes it,
// and the log of its latest changes. All logs together are bounded in bytes (logBudget). Only objects that nothing else
// keeps count: those that were replaced or deleted. Older changes are read from the table changes until they are
// pruned; the watches that need them share pages, some of which are kept (catchUps). The floor is the revision up to
// which changes may be gone.
//
// An update is stored together with the previous object only if that is not the object of an earlier change of the log
// (change.withPrev); otherwise readers take it from the earlier change. Servers of schema version 1 do not know
// that, so while they may be running, every update is stored with it (transaction.floor).
//
// SQLite stores an object once, in the row of changes of its last write: the table current has the revision, and the
// view objects shows both as the table objects of Postgres. A file writes whole pages, and each of them to the log and
// to the database, so a second copy would cost as much again. Postgres keeps the copy, since servers of earlier releases
// work on the same tables. Objects that a file had before it stored them so, and those that a restore or a move fills it
// with, are in current itself until they are written again (meta.inline).
//
// A past state is the present state with later changes taken back. The bytes that all past states hold are bounded
// (pastCache).
//
// Several readers load the cache at once, each with a transaction of its own; all see one state of the database. A
// reader takes one part of the table after the other, makes objects of the rows and sorts them; the trees are then
// built in order.
//
// A watch is a cursor: its position, and the last revision at which an event may wait for it. A watcher that has caught
// up costs nothing until a change that it wants is brought to it; it does not read the changes in between.
//
// # SQLite
//
// No other server writes to the file. The outcome of a COMMIT that failed in an unclear way is determined before any
// request is answered, and by the janitor if that fails (resolve). If commits are not flushed one by one, a mark ahead
// of the counter is flushed (ahead).
//
// # Invariants
//
//   - Everything up to revisions.current is in the trees and the logs. Trees and logs may hold a batch beyond it for
//     the moment that apply takes; reads wait until that is over, cursors stop short of it.
//   - A collection's log holds every change with logStart < revision <= tree.last.
//   - The floor in memory is never above the one in the database: it is raised when a prune has committed, so that a
//     failed prune leaves no trace. It refuses early a request that is certainly too late; a read of history takes the
//     floor from the statement that reads, so that it notices a prune in the meantime.
//   - The table changes has every change after the floor. Of the changes up to the floor, it has those that are the
//     prev_revision of a change after the floor: a reader of history finds the object before each update in the update
//     or in that row. In SQLite it has the last change of each object, too, whose row in current is empty. That row is
//     deleted when the floor passes the next change of the object, which has it as prev_revision, and a deletion when
//     the floor passes it (deletePastSQL); history counts the changes after the floor. Postgres has no others, and there
//     a change is deleted when the floor passes the next change of its object, or, if there is none, when the floor
//     passes the change itself (freesSQL). The table objects shows whether there is a next change, so a batch that
//     prunes does so after it has changed objects. All kept changes count as history there. When the counter jumps, the
//     table is emptied, in SQLite but for the objects. While servers of schema version 1 may be running, which do not
//     keep such changes, no server keeps them: every update is then stored with the object before it.
//   - A tree that was stored in collection.tree is never changed.
//   - collection.followers and collection.watchers have every watch that is not closed. An event that a watch wants and
//     that is after both its cursor and its newest was not announced yet, or is in wakeRound, where Next looks first.
//   - The bytes of an object of an encrypted resource reach the database only if they are sealed; see sealer. Memory
//     holds them unencrypted. A row that cannot be decrypted becomes an Unreadable object, which stays in the trees and
//     the logs: no Get, Snapshot or Next returns it, and nothing is computed from it.
//
// Source.Verify checks that a database keeps these invariants of the tables: a change here requires a change of Verify.
//
// # Locks
//
// Store.applying is held by the goroutine that changes the cache: the committer from planning to apply, and while it
// heals; the peers while they take a page of the log into the cache, but not while they read it. peers.reading is held by
// the one that reads the log, and comes before applying; the committer takes it only between transactions. No other lock
// is held across statements; a caller that waits for one of the two under a context can give up. The database's lock of
// the counter comes before applying, except in the committer, the only goroutine that takes both: so no
// other goroutine may wait for a connection while it holds applying.
//
// Inside it, Store.creating is held while a collection is added, and while reload replaces all: each begins at the last
// load. Inside that one, collection.mu guards the log and the watches of a collection, and orders changes of the tree
// pointer. No lock is taken inside that one. revisions.mu, recent.mu, pastCache.mu, catchUps.mu, queue.mu, janitor.mu
// and Session.mu are leaves as well.
//
// # Goroutines
//
// The committer owns the connection that writes, and builds the batches. The janitor prunes, expires and gives space
// back, by tasks that the committer runs between batches; it has a timer only when a task is due. The listener of the
// peers owns its connection; recent has a goroutine while a read asks, a collection while watchers are to be woken,
// catchUps one for each page that is being read. Close ends all.
//
// # Files
//
// Opening, and common parts:
//
//	store.go       Store, Open, Close
//	options.go     Options
//	url.go         the URL of a database
//	database.go    the tables, and the differences between the two kinds of databases (driver)
//	rows.go        rows of objects and changes, to objects and back
//	statements.go  the SQL that serves both databases
//	limits.go      how long a database may take
//	await.go       waiting for an unreachable database, and for one that is being filled
//	metrics.go     Prometheus metrics
//
// Writes:
//
//	commit.go           Commit, and its checks before the queue
//	queue.go            requests and tasks that wait for the committer
//	committer.go        one transaction after the other
//	batch.go            the requests of a batch, each checked against the state before it
//	author.go           the author of a change
//	unknown_outcome.go  the outcome of a COMMIT whose answer was lost
//	jump.go             the counter's jump when revisions may be lost
//
// The cache, reads and watches:
//
//	load.go        building the trees at the start
//	collection.go  one resource type: its tree, its log, its watches
//	tree.go        the tree
//	apply.go       a batch becomes visible
//	revisions.go   the revision that reads see, and waiting for one
//	read.go        Get and Snapshot
//	recent.go      the counter, for reads at "most recent"
//	past.go        lists at older revisions
//	past_cache.go  the bound of past states
//	watch.go       cursors
//	wake.go        waking the watchers
//	catchup.go     history for watches that are behind
//	history.go     the query of history
//	reread.go      objects that could not be decrypted
//	heap.go        defragmenting the cache in memory
//
// Upkeep:
//
//	janitor.go          tasks that become due
//	janitor_queries.go  the janitor's SQL
//	prune.go            removing history beyond its age or size
//	age.go              the age of history
//	expire.go           deleting objects whose lifetime ends
//	rewrite.go          encrypting stored rows again with the present key
//	seal.go             encrypting a row
//
// Servers that share a Postgres:
//
//	peers.go               keeping up with the log
//	listen.go              notifications
//	page.go                a page of the log
//	session.go             live servers, and the one whose controllers work
//	origin.go              the primary that the cache was read from
//	postgres.go            opening
//	postgres_pool.go       closing idle connections
//	postgres_connect.go    making connections
//	postgres_credentials.go passwords and certificates in files that are replaced
//	postgres_timeline.go   refusing a primary that was replaced
//	postgres_types.go      types of parameters
//	postgres_read.go       reading
//	postgres_write.go      a batch
//	postgres_rows.go       the statements of a batch
//	postgres_outcome.go    kinds of errors, and the outcome of a transaction
//	postgres_prune.go      pruning
//	postgres_rewrite.go    rewriting
//	postgres_modernize.go  the counter of schema version 1
//
// SQLite:
//
//	sqlite.go          opening
//	lock_unix.go       one process for a file
//	sqlite_claim_*.go  the same, whatever path the process uses for the file
//	sqlite_place.go    files that were moved, removed or replaced while in use
//	sqlite_gate.go     holding reads back while the write-ahead log is cut
//	sqlite_write.go    a batch
//	sqlite_room.go     quotas and limits for the size of files, which count as a full disk
//	sqlite_rewrite.go  rewriting
//	sqlite_ahead.go    the mark ahead of the counter, if COMMIT does not flush
//
// The object history:
//
//	recorder.go          recording writes, and when
//	recorder_step.go     one step of the recorder
//	recorder_discard.go  removing the history where it was turned off
//	recorder_aside.go    the transaction of a step
//	recorder_rows.go     the rows
//	recorder_queries.go  the SQL
//	recorder_read.go     ObjectHistory
//	recorder_rewrite.go  encrypting its rows again
//	recorder_metrics.go  its metrics
//
// Tools that run without a server:
//
//	source.go           reading a consistent state of a database
//	source_still.go     reading a SQLite file where nothing can be written
//	target.go           filling an empty one
//	target_sqlite.go    a file
//	target_postgres.go  a schema
//	target_object.go    rows of objects that come from outside a store
//	move.go             moving a store into another database
//	move_copy.go        copying the source into the target
//	move_rows.go        writing the target's rows
//	move_target.go      an unfinished target database
//	move_fence.go       stopping writers for the switch
//	verify.go           verifying a database
//	verify_tables.go    tables and indexes
//	verify_postgres.go  the expected tables of Postgres
//	verify_sqlite.go    the expected values of SQLite
//	verify_log.go       the log and the counter
//	verify_history.go   the object history
//	views.go            views for SQL
//	views_keep.go       keeping the views in a database
//	views_sqlite.go     the views' SQL for SQLite
//	views_postgres.go   the views' SQL for Postgres
//	views_columns.go    the columns that kubectl computes from several fields
//	views_computed.go   the forms in which these are written, for each database
//	query.go            the queries of rowlock sql
//	query_tables.go     the tables of these queries
//	query_changes.go    their table changes
//
// Packages: archive, the format of backups; backup, making and restoring them; etcd, reading kube-apiserver's objects from
// etcd or kine, and writing a snapshot for etcd; recording, the part of a write that the object history keeps; pgtest,
// sqlitetest, sqltest and kmstest, for tests.
package sqlstore
