package resources

import (
	"context"
	"time"
)

// Revision is a write in the object history.
type Revision struct {
	Key      Key
	Revision int64
	// UID is empty where the object could not be read.
	UID string
	Op  Op
	// At is the time of the commit, by the clock of the server that committed.
	At     time.Time
	Author Author
	// Fields are the paths that the write changed, bounded in number; only for an Update.
	Fields []string
	// Before and After are the object before and after the write, as JSON in its storage version, without resourceVersion and managedFields, and
	// with hashes in place of the values of Secrets unless the history keeps them. Before is nil where there was no object; After of a Delete is
	// the last state.
	Before, After []byte
	// Unreadable: the object could not be decrypted when the write was recorded, or cannot be now, or it was too large to be kept.
	Unreadable bool
}

// RevisionQuery selects revisions. Empty means all.
type RevisionQuery struct {
	// Resource is the resource type, as in Key.
	Resource, Namespace, Name, UID string
	// Clustered selects objects without a namespace only.
	Clustered bool
	// Revision selects one write.
	Revision int64
	// Deleted selects deletions only.
	Deleted bool
	// Before selects the revisions before this one; 0: all.
	Before int64
	// Limit is the greatest number of results; 0: no limit.
	Limit int
	// Objects tells whether Before and After of each are wanted.
	Objects bool
}

// Historian is a Store that keeps an object history.
type Historian interface {
	// RecordHistory brings the history up to date with every write that was acknowledged before.
	//
	// Errors: ErrUnavailable, ErrClosed, the context's.
	RecordHistory(ctx context.Context) error
	// ObjectHistory returns the recorded writes, the last ones first. It may return fewer than the query's limit if they are large, but at least
	// one if there is any; more reports whether there are others.
	//
	// Errors: ErrUnavailable, the context's.
	ObjectHistory(ctx context.Context, q RevisionQuery) (revisions []Revision, more bool, err error)
	// RecordedAt returns the last revision that the history has recorded. Errors: as ObjectHistory.
	RecordedAt(ctx context.Context) (int64, error)
}
