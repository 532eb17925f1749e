// Package sqlstore is resources.Store on a SQL database.
//
// # The way of a write
//
// Commit puts a request into the queue and waits. The committer (one goroutine) takes everything that waits, up to a
// bound, after it has waited a moment for other writers if there were any (queue), and checks them (batchBuilder): each request
// against the state before the batch and what the batch has done so far; one that fails leaves nothing behind. An Expect is
// answered there, from memory, and does not go to the database. What is
// accepted goes to the database in one transaction. After COMMIT, apply makes it visible: trees and logs first, then the
// store's revision, then it is announced to watches. Then the requests are answered, those that failed too. So revision
// order is commit order is event order, a writer reads its own writes, and a writer that gets a conflict reads the change that conflicts. Watchers are
// woken by a goroutine beside that, a slice at a time, so that no writer waits for ten thousand of them.
//
// What a database would refuse is not let into the queue. When it refuses something in a batch all the same, each request is
// committed alone, so that no request fails for what another client has sent.
//
// # Peers
//
// In Postgres, many servers write to one database. There a batch begins with locking the row of meta, under which revisions
// are given, and reading what others wrote (the page of the log after the cache's position), which is brought into the
// cache before any request is checked: so each is checked against exactly what it will be committed to. Both are one round
// trip; writing, NOTIFY and COMMIT are the second. The row is locked and not updated: the counter is the last revision of
// the log, or the floor where nothing is left of it. An update would leave a dead version with every batch, and all have
// to pass those while somebody keeps a snapshot open. Only while servers of the version before may be there, which have
// the counter in meta.revision, is it raised there as well; else that is NULL (postgresDriver.modernize).
//
// A listener wakes on notifications and catches up from the log; every limits.poll it looks without one. Transactions
// that notify commit one after the other in the whole cluster, so a batch notifies only when the table servers has
// another server. One that begins to listen writes its row, then awaits the batch that holds the lock, then reads the
// log: each batch has seen the row, or is read. A read at "most recent" learns the counter, in a question that all who
// wait share, and catches up to it, unless the cache is there already or comes there by the committer. The log is read in
// pages of whole transactions (their rows have the same xmin), each of which stays in the cache when the next one fails.
// What became of a COMMIT whose answer was lost is
// looked up by the number of the transaction and by what the log has.
//
// A position is a revision and the time of its commit. A page that is not a continuation of the position (the counter
// went back, another change has the revision, or meta.origin is not the cluster, timeline and table that it was read
// from) means that the database was restored or a replica took over: heal makes the counter jump ahead, puts the floor
// there, and loads the cache again.
//
// What a server knows of the others, and the lock that makes the controllers of one of them work, hangs on the connection
// that listens: see Session. Where it looks for the state of that, it looks for news of the log in the same statement.
//
// Where the counter jumps to, see jumpTo. Pages of history, which watches and past lists read through a pool, are taken from the
// origin alone that the cache was brought up from (origin): a connection may lead to a primary that was replaced.
//
// A replica that was promoted counts as one that lost commits, also after a planned switchover: that it has all that any
// server has acknowledged or shown cannot be read from it, and the server that could tell may be gone.
//
// Nor is anything taken from a primary, or written to it, whose timeline is lower than one that was seen of the same cluster, when a connection is made and
// in each page (timelines): it was replaced, and does not know it.
//
// # State
//
// A collection is one resource type: an immutable tree of its current objects, replaced by every batch that changes it,
// and the log of its latest changes. All logs together are bounded in bytes (logBudget): of what they alone keep, which is the
// objects that were replaced or deleted. Older changes are read from the table changes, until they are pruned; the watches
// that need them share pages, of which some are kept (catchUps). The floor is the revision up to which changes may be gone.
//
// An update is stored with the object before it only where that is not the object of an earlier change of the log
// (change.withPrev): else readers take it from there. Servers of the version before do not know that, so while they may be
// there, every update has it (transaction.floor).
//
// A past state is the present one with the changes since taken back. What all of those hold is bounded in bytes (pastCache).
//
// The cache is loaded by several readers at once, each with a transaction of its own; all see one state of the database. A
// reader takes one part of the table after the other, makes objects of the rows and sorts them; the trees are then made in
// order.
//
// A watch is a cursor: how far it has come, and the last revision at which something may wait for it. A watcher that
// has caught up costs nothing until a change that it wants to see is brought to it; it does not look at what lies
// between.
//
// # SQLite
//
// Nobody else writes to the file. A COMMIT that failed in an unclear way is looked into before anybody is answered, and by the
// janitor where that fails (resolve). Where commits are not flushed one by one, a mark ahead of the counter is (ahead).
//
// # Invariants
//
//   - Everything up to revisions.current is in the trees and the logs. Trees and logs may hold a batch beyond it for
//     the moment that apply takes; reads wait for it to be over, cursors stop short of it.
//   - A collection's log holds every change with logStart < revision <= tree.last.
//   - The floor in memory is never above the one in the database: it is raised when a prune is committed, so that one that
//     failed leaves no trace. It refuses early what is too late for certain; a read of history takes the floor from the
//     statement that reads, so that it cannot miss what was pruned meanwhile.
//   - The table changes has every change after the floor, and of those up to it exactly the ones that are before a change
//     after the floor, as its prev_revision: so whoever reads history finds the object before each update, in it or there.
//     A change is deleted when the floor passes the next one of its object; where there is none, when the floor passes
//     itself (freesSQL). Whether there is one is seen by objects alone, so a batch that prunes does so after it has
//     changed that. All that is kept is counted as history. Where the counter jumps, the table is emptied. Beside servers of
//     the version before, which do not keep such changes, nobody does: every update has the object before it then.
//   - A tree that was stored in collection.tree is never changed.
//   - collection.followers and watchers have every watch that is not closed. An event that a watch wants and that is
//     after both its cursor and its newest was not announced yet, or is in wakeRound, where Next looks first.
//   - No bytes of an object of an encrypted resource reach the database unless they are sealed; see sealer. What is in memory is not. A
//     row that cannot be opened is an object that is Unreadable, which stays in the trees and the logs: no Get, Snapshot or Next
//     returns it, and nothing is computed from it.
//
// Source.Verify looks whether a database keeps what is said here of its tables: who changes that changes Verify.
//
// # Locks
//
// Store.applying is held by who brings changes into the cache: the committer from planning to apply, the peers while they
// read the log. It is the one lock that is held over statements; who waits for it under a context can give up. The
// database's lock of the counter comes before it, except in the committer, which is the only one to want both.
//
// Inside it, collection.mu guards the log and the watches of a collection, and orders changes of the tree pointer. Inside
// that nothing is locked. revisions.mu, recent.mu, pastCache.mu, catchUps.mu, queue.mu, janitor.mu and Session.mu are leaves as well.
//
// # Goroutines
//
// The committer owns the connection that writes, and builds the batches. The janitor prunes, expires and gives space back, by tasks
// that the committer runs between batches; it has a timer only when something is due. The listener of the peers owns
// its connection; recent has a goroutine while a read asks, a collection while watchers are to be woken, catchUps one for
// each page that is being read. Close ends all.
//
// # Files
//
// Opening and what all need:
//
//	store.go       Store, Open, Close
//	options.go     Options
//	url.go         the URL of a database
//	database.go    the tables, and what the two kinds of databases do differently (driver)
//	rows.go        rows of objects and changes, to objects and back
//	statements.go  the SQL that serves both databases
//	limits.go      how long a database may take
//	await.go       waiting for a database that cannot be reached
//	metrics.go     what is told to Prometheus
//
// Writes:
//
//	commit.go           Commit, and what it refuses beforehand
//	queue.go            what waits for the committer
//	committer.go        one transaction after the other
//	batch.go            the requests of a batch, each checked against what is before it
//	author.go           who made a change
//	unknown_outcome.go  what became of a COMMIT whose answer was lost
//	jump.go             where the counter goes on when revisions may be lost
//
// The cache, reads and watches:
//
//	load.go        the trees at the start
//	collection.go  one resource type: its tree, its log, its watches
//	tree.go        the tree
//	apply.go       a batch becomes visible
//	revisions.go   the revision that reads see, and who waits for one
//	read.go        Get and Snapshot
//	recent.go      what "most recent" is
//	past.go        lists at older revisions
//	past_cache.go  their bound
//	watch.go       cursors
//	wake.go        waking those who have one
//	catchup.go     history for watches that are behind
//	history.go     the query
//	reread.go      objects that could not be decrypted
//	heap.go        the cache moved together in memory
//
// Upkeep:
//
//	janitor.go          what becomes due
//	janitor_queries.go  its SQL
//	prune.go            history that is too old or too much
//	age.go              how old it is
//	expire.go           objects whose lifetime ends
//	rewrite.go          encrypting what is there anew
//	seal.go             encrypting a row
//
// Servers that share a Postgres:
//
//	peers.go               keeping up with the log
//	listen.go              notifications
//	page.go                a page of the log
//	session.go             who lives, and whose controllers work
//	origin.go              which primary was read
//	postgres.go            opening
//	postgres_pool.go       connections that are closed when nobody needs them
//	postgres_connect.go    making connections
//	postgres_credentials.go passwords and certificates that are exchanged in files
//	postgres_timeline.go   connections that lead to a primary that was replaced
//	postgres_types.go      types of parameters
//	postgres_read.go       reading
//	postgres_write.go      a batch
//	postgres_rows.go       its statements
//	postgres_outcome.go    kinds of errors, and what became of a transaction
//	postgres_prune.go      pruning
//	postgres_rewrite.go    rewriting
//	postgres_modernize.go  the counter of the version before
//
// SQLite:
//
//	sqlite.go          opening
//	lock_unix.go       one process for a file
//	sqlite_claim_*.go  the same, by whatever name it knows the file
//	sqlite_place.go    files that were moved, removed or replaced under the server
//	sqlite_gate.go     no reads begin where the write-ahead log is to be cut
//	sqlite_write.go    a batch
//	sqlite_rewrite.go  rewriting
//	sqlite_ahead.go    the mark ahead of the counter where COMMIT does not flush
//
// The object history:
//
//	recorder.go          what is kept of writes, and when
//	recorder_step.go     a step
//	recorder_aside.go    its transaction
//	recorder_rows.go     the rows
//	recorder_queries.go  the SQL
//	recorder_read.go     ObjectHistory
//	recorder_rewrite.go  encrypting it anew
//	recorder_metrics.go  its metrics
//
// Beside servers:
//
//	source.go           reading one state of a database
//	target.go           filling an empty one
//	target_sqlite.go    a file
//	target_postgres.go  a schema
//	target_object.go    rows of objects that were in no store
//	move.go             taking a store into another database
//	move_copy.go        making the target what the source is
//	move_rows.go        writing its rows
//	move_target.go      a database that is not finished
//	move_fence.go       keeping writers out for the switch
//	verify.go           whether a database is whole
//	verify_tables.go    its tables and indexes
//	verify_postgres.go  what Postgres' tables are to have
//	verify_sqlite.go    what SQLite's values are to be
//	verify_log.go       its log and counter
//	verify_history.go   its object history
//	views.go            views for SQL
//	views_keep.go       keeping them in a database
//	views_sqlite.go     their SQL for SQLite
//	views_postgres.go   their SQL for Postgres
//	query.go            the queries of rowlock sql
//	query_tables.go     the tables that they read
//
// Packages: archive, the format of backups; backup, making and restoring them; etcd, what kube-apiserver has stored elsewhere; recording, what
// the object history keeps of a write; pgtest, sqlitetest, sqltest and kmstest, for tests.
package sqlstore
