package resources

import (
	"context"
	"time"
)

// Revision is a write that the object history has.
type Revision struct {
	Key      Key
	Revision int64
	// UID is empty where the object could not be read.
	UID string
	Op  Op
	// At is when it was committed, by the clock of the server that did.
	At     time.Time
	Author Author
	// Fields are the paths that the write changed, bounded; of an Update alone.
	Fields []string
	// Before and After are the object before and after the write, as JSON in its storage version, without resourceVersion and
	// managedFields, and with hashes in the place of the values of Secrets unless the history keeps them. Before is nil where
	// there was none; After of a Delete is the last state.
	Before, After []byte
	// Unreadable tells that the object could not be decrypted when the write was recorded, or cannot be now, or that it was too large to be kept.
	Unreadable bool
}

// RevisionQuery says which revisions are asked for. Empty means all.
type RevisionQuery struct {
	// Resource is the resource type, as in Key.
	Resource, Namespace, Name, UID string
	// Clustered asks for objects without a namespace alone.
	Clustered bool
	// Revision is that of one write.
	Revision int64
	// Deleted asks for deletions alone.
	Deleted bool
	// Before is a revision before which all are; 0: none.
	Before int64
	// Limit is how many are returned at most; 0: all there are.
	Limit int
	// Objects tells whether Before and After of each are wanted.
	Objects bool
}

// Historian is a Store that keeps an object history.
type Historian interface {
	// RecordHistory brings it up to date with every write that was acknowledged before.
	//
	// Errors: ErrUnavailable, ErrClosed, the context's.
	RecordHistory(ctx context.Context) error
	// ObjectHistory returns what is kept of writes, the last ones first.
	//
	// Errors: ErrUnavailable, the context's.
	ObjectHistory(ctx context.Context, q RevisionQuery) ([]Revision, error)
	// RecordedAt returns the revision that the history has come to. Errors: as ObjectHistory.
	RecordedAt(ctx context.Context) (int64, error)
}
