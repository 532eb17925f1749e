package resources

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Store keeps the objects of every resource type in one sequence of revisions.
//
// Invariants, which every implementation holds and storetest checks:
//
//   - One 64-bit counter for the whole store is raised by exactly one per object written, under the lock that commits.
//     Revision order is commit order is event order, without gaps.
//   - A Commit that returned nil is durable.
//   - Nothing is visible (to Get, Snapshot or a Watch) before it is committed, and the writes of a Commit are visible to
//     every read at MostRecent that starts after the Commit returned.
//   - A Watch delivers each event after its starting revision once, in revision order, and reports a revision as
//     passed only after every event up to it.
//   - A revision is never given twice, and never goes back.
type Store interface {
	Reader
	Writer
	Watcher
}

// Reader reads current and past state. It never waits for writers.
type Reader interface {
	// Get returns the object with this key at the given point.
	//
	// Errors: ErrNotFound; *FutureRevisionError when at.Revision did not come into being within a short wait; ErrUnavailable when "most
	// recent" could not be established; the context's error. Get takes no Exact point.
	Get(ctx context.Context, key Key, at At) (*Object, error)

	// Snapshot returns a consistent, immutable view of all objects of one resource type. It costs nothing at the current revision, and
	// time proportional to the number of changes since an older one.
	//
	// Errors: *ExpiredError when at is Exact and that revision is no longer in history; *FutureRevisionError; ErrBusy when other readers
	// of older revisions hold too much memory; ErrUnavailable; the context's error. A resource that was never written is empty, not an
	// error. A revision from which too much has changed counts as no longer in history.
	Snapshot(ctx context.Context, resource string, at At) (Snapshot, error)

	// Changed returns a number that shows whether a resource type may have changed, at the cost of a look-up. A result that a caller
	// derived from the objects is still valid if Changed returns the same number as before they were read. The number is the revision of
	// the last change, or of a later one when that is not known; it is raised before any read shows the change, and a read that begins
	// after that waits for the change. It never falls.
	Changed(resource string) int64

	// Amount returns the number and the average size of the objects of a resource type. It reads memory only: it does not wait, makes no
	// query and never fails, so it may be a moment behind. It counts objects that cannot be read; their sizes are not known.
	Amount(resource string) Amount
}

// Amount is the number of objects of a resource type and their average size in bytes, estimated from some of them.
type Amount struct{ Objects, AverageBytes int64 }

// Writer changes objects.
type Writer interface {
	// Commit applies all writes in one transaction, or none. Result i is the object that write i stored; for a Delete it is the last
	// state of the object with the revision of its deletion, for an Expect the expected object, which may be packed (Object.IsPacked).
	//
	// Errors: ErrExists (a Create's key exists), ErrNotFound (an Update's or Delete's key does not), *ConflictError (the object is at
	// another revision than the write was computed from): compute again from the current object, or tell the client; see
	// GuaranteedUpdate. *ExpectationError (the object of an Expect is at another revision, or gone): the written object is not at fault, but
	// the rules it was computed by are out of date. ErrRefused: the store cannot hold the writes, or they make no sense (see Expect);
	// nothing was written, a retry fails again. ErrUnavailable: nothing was written, the client may retry. ErrUnknownOutcome: it may or
	// may not have been written, the client has to look. The context's error: as ErrUnknownOutcome.
	//
	// A refused Commit does not affect any other. The state that causes one of the first four errors is visible to every read at
	// MostRecent that starts after Commit returned.
	Commit(ctx context.Context, writes ...Write) ([]*Object, error)
}

// Watcher follows changes.
type Watcher interface {
	// Watch opens a cursor that will see every event with a revision greater than opts.After.
	//
	// Errors: *ExpiredError when history no longer reaches back to opts.After; ErrUnavailable. An opts.After in the
	// future is not an error: the cursor stays silent until the store has passed it.
	Watch(ctx context.Context, opts WatchOptions) (Watch, error)
}

// Restorer is a Store that may have stored an object in an outdated form: encrypted with a key that was replaced, for example.
type Restorer interface {
	// Stale reports whether the object, at its revision, is stored in an outdated form. False where that cannot be found out.
	Stale(ctx context.Context, o *Object) bool
}

// Match is the meaning of the revision of an At; see "Semantics for get and list" of the API concepts page.
type Match int

const (
	// MostRecent reads state at least as new as every write acknowledged before the read began.
	MostRecent Match = iota
	// Any reads the state at hand, newest preferred, without asking the database.
	Any
	// NotOlderThan reads state at least as new as a revision.
	NotOlderThan
	// Exact reads the state as it was at a revision.
	Exact
)

// At is the point in the sequence of revisions for a read.
type At struct {
	Match Match
	// Revision is used by NotOlderThan and Exact only.
	Revision int64
	// Namespace and Name say which objects of a Snapshot will be read, where that is known: unreadable objects elsewhere then cause no
	// error. Name is a name in Namespace, which is empty where the type has none. Get does not use them.
	Namespace, Name string
}

// Snapshot is a consistent, immutable view of the objects of one resource type. Order is that of Key.Path, bytewise.
type Snapshot interface {
	// Revision is the revision of the whole store at which the view was taken.
	Revision() int64
	// Get returns the object, or nil.
	Get(namespace, name string) *Object
	// Ascend yields the objects of a namespace ("": of all) whose path is greater than after ("": from the first),
	// until yield returns false.
	Ascend(namespace, after string, yield func(*Object) bool)
	// Count returns how many objects Ascend would yield, without visiting them.
	Count(namespace, after string) int
}

// Op is the kind of a Write.
type Op uint8

const (
	// Create stores a new object.
	Create Op = iota + 1
	// Update replaces an object.
	Update
	// Delete removes an object.
	Delete
	// Expect writes nothing, takes no revision and makes no event: the Commit takes effect only if the object with this key is at
	// revision From at the Commit's place in the sequence of revisions, after all earlier commits of any server. This prevents an object
	// from being stored by rules (the definition of a type) that have changed or are gone, however long ago they were read.
	//
	// Its place among the writes makes no difference, since the others must have other keys: for an object that the Commit writes, the
	// From of that write says the same. A Commit that writes an object that it expects is refused with ErrRefused, and so is one of
	// Expects alone: a Get at MostRecent answers that.
	Expect
)

// FromEarlier as Write.From says that the write was computed from the state that an earlier write of the same Commit gives the object,
// whose revision is not known yet. A Commit without such a Create or Update is refused with ErrRefused.
const FromEarlier int64 = -1

// Write is one change of one object. Everything slow (decoding, validation, encoding) has happened before.
type Write struct {
	Op  Op
	Key Key
	// From is the revision that an Update or a Delete was computed from; the write fails with *ConflictError when the object is at
	// another one. It is required: no write overwrites a state that it has not seen. For an Expect it is the revision that the object
	// must have. FromEarlier is the revision that an earlier write of the same Commit gives the object.
	From int64
	// Draft is the new state for Create and Update.
	Draft Draft
	// TTL, when positive, is how long the object lives from now on; the store then deletes it as if by Delete.
	TTL time.Duration
	// Unread, when set, makes a Delete one of an object that cannot be read, and is the reason for that. The write fails with ErrNotFound
	// when there is no such object at From: it may have been replaced, or be readable now. The row in the database goes into history
	// unchanged.
	Unread *TransformError
}

// WatchOptions select the events of a Watch.
type WatchOptions struct {
	// Resource is the resource type, as in Key.
	Resource string
	// Namespace and Name narrow the watch; empty means all.
	Namespace, Name string
	// After is the revision after which events are delivered.
	After int64
	// Group names watches that should be notified of a change one after the other, because their events are sent together. Empty: no
	// group.
	Group string
	// Wake, when set, is called whenever Ready would receive a value, which it then never does: one goroutine can follow many watches.
	// It is called with locks held, so it must not block and must not call the store. It may be called before Watch returns. For the
	// writes of a Commit, the store calls it on every watch that matches them, before the Commit returns and before anything later is
	// visible; Ready may receive its value after that.
	Wake func()
	// Notify, when set, is called where Ready would receive a value, which it then never does, and no earlier than that: a waiting watch
	// needs no goroutine. Like Wake, it must not block and must not call the store.
	Notify func()
	// Aside, when set, is called by Next before it reads history, which may make other watches wait.
	Aside func()
}

// Watch is a cursor into the log of changes. It holds no queue: a slow reader costs nothing and is never dropped while
// the revision it stands at is in history. It is used by one goroutine at a time.
type Watch interface {
	// Next returns the events after the cursor, up to max of them, and moves the cursor past them. It returns no events when there are
	// none at the moment; it may read history from the database, but never waits for new events.
	//
	// The returned revision is the position of the cursor: every event up to it was returned by this call or an earlier one. A bookmark
	// may carry it. With fewer events than max, it is no less than any revision that a read had shown before the call: Next returns all
	// that reads can see even before Ready has a value. On a watch with a Wake, the same holds for the changes that Wake was called for.
	//
	// Errors: *ExpiredError when history was pruned beyond the cursor (the client must list again); ErrUnavailable (call again later);
	// ErrClosed; the context's error.
	Next(ctx context.Context, max int) ([]*Event, int64, error)
	// Ready receives a value whenever Next may have more to return than when it was last called.
	Ready() <-chan struct{}
	// Close releases the cursor.
	Close()
}

// The errors of the contract. Drivers translate the errors of their database into these; the server maps them to a Status in one table.
var (
	// ErrNotFound: no object has this key.
	ErrNotFound = errors.New("object not found")
	// ErrExists: an object with this key exists already.
	ErrExists = errors.New("object already exists")
	// ErrRefused: the store cannot hold the write: a key that is not Storable, data that is not text, or data that a rule of the
	// database forbids; or an Expect is not allowed there. Nothing was written; a retry fails again.
	ErrRefused = errors.New("the store cannot hold this")
	// ErrTooLarge: an object exceeds the store's limit. Nothing was written; a retry fails again. The text is etcd's, which clients of
	// kube-apiserver know.
	ErrTooLarge = errors.New("etcdserver: request is too large")
	// ErrUnavailable: the database cannot be used at the moment. Nothing was written; a retry is safe.
	ErrUnavailable = errors.New("store unavailable")
	// ErrFull comes with ErrUnavailable: the database has no room on its disk. Reads go on.
	ErrFull = errors.New("the disk of the database is full")
	// ErrMoved comes with ErrUnavailable: the store has moved to another database, and this one takes no more writes.
	ErrMoved = errors.New("the store has moved")
	// ErrBusy: the request needs more than is free at the moment; a retry after a while is right.
	ErrBusy = errors.New("store busy")
	// ErrUnknownOutcome: a commit was sent and its answer lost. It may or may not have taken effect.
	ErrUnknownOutcome = errors.New("outcome of the write is unknown")
	// ErrClosed: the store is shutting down.
	ErrClosed = errors.New("store closed")
)

// ConflictError says that an object is not at the revision a write was computed from.
type ConflictError struct {
	Key Key
	// Current is the object as it is now.
	Current *Object
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s is at revision %d", e.Key, e.Current.Revision)
}

// ExpectationError says that an object is not at the revision that an Expect named. It is neither a *ConflictError nor an ErrNotFound:
// those concern the written object, and lead to another attempt with the same rules.
type ExpectationError struct {
	Key Key
	// Current is the object as it is now; nil when there is none.
	Current *Object
}

func (e *ExpectationError) Error() string {
	if e.Current == nil {
		return fmt.Sprintf("%s, which was expected, does not exist", e.Key)
	}
	return fmt.Sprintf("%s, which was expected at another revision, is at %d", e.Key, e.Current.Revision)
}

// ExpiredError says that history no longer reaches back to a revision.
type ExpiredError struct {
	Requested int64
	// Oldest is the oldest revision that can still be read exactly or watched from.
	Oldest int64
}

func (e *ExpiredError) Error() string {
	return fmt.Sprintf("revision %d is no longer in history, which begins at %d", e.Requested, e.Oldest)
}

// FutureRevisionError says that a revision has not come into being.
type FutureRevisionError struct {
	Requested, Current int64
}

func (e *FutureRevisionError) Error() string {
	return fmt.Sprintf("revision %d is in the future, the store is at %d", e.Requested, e.Current)
}
