// Package history verifies the requests of clients of a Kubernetes API and their answers: whether they are consistent with one store that keeps the
// guarantees of the API concepts page and of etcd. It sends nothing and reads no clock, so that the same recorded history always has the same
// verdict.
//
//	history.go     the format: operations, watches, the history of a namespace
//	file.go        histories in files
//	check.go       Check, and violations
//	log.go         the log: all changes, in the order of revisions
//	gather.go      making the log from the events of watches and the answers to writers
//	linear.go      reads and writes are linearizable
//	revisions.go   resourceVersions grow in real time, over all servers
//	reads.go       lists and gets show the state of their revision, and that is the requested one
//	watches.go     watches are ordered, unique, reliable, atomic, resumable and bookmarkable
//	initial.go     watches that begin with the state
//	loss.go        histories that begin with the loss of writes
//	flight.go      writes in flight while writes are lost
//	pruned.go      histories of which servers prune what is old
//	prefix.go      the part of a history that can be verified, if events are missing
package history

import "fmt"

// Object is the record of an object, a ConfigMap.
type Object struct {
	Name     string `json:"name"`
	UID      string `json:"uid,omitempty"`
	Revision int64  `json:"rv"`
	// Value names the write that produced the object: each write has a value of its own.
	Value string `json:"value,omitempty"`
	// Color is the label by which lists and watches select.
	Color string `json:"color,omitempty"`
}

// The kinds of operations.
const (
	Create = "create"
	Update = "update"
	Patch  = "patch"
	Apply  = "apply" // server-side, forced: creates the object if it does not exist
	Delete = "delete"
	Get    = "get"
	List   = "list"
)

// The resourceVersion semantics of reads and watches ("Resource versions in get, list, and watch").
const (
	MostRecent = ""        // no resourceVersion
	Any        = "any"     // resourceVersion=0
	NotOlder   = "atleast" // resourceVersion=At, resourceVersionMatch=NotOlderThan or none
	Exact      = "exact"   // resourceVersion=At, resourceVersionMatch=Exact
)

// EndColor is selected by every watch beside its own color, so that all watches see the object of this color that ends a history.
const EndColor = "end"

// Operation is a request and its answer. Times are nanoseconds since the clock of the recorder began.
type Operation struct {
	Client int    `json:"client"`
	Server int    `json:"server"`
	Kind   string `json:"kind"`
	Name   string `json:"name,omitempty"` // of the object; empty for a list
	Call   int64  `json:"call"`
	Return int64  `json:"return"`

	// Value and Color are those that a write sets.
	Value string `json:"value,omitempty"`
	Color string `json:"color,omitempty"`
	// IfRevision and IfUID are preconditions of a write; 0 and empty: none.
	IfRevision int64  `json:"ifRv,omitempty"`
	IfUID      string `json:"ifUid,omitempty"`

	// Match and At select the revision of a read.
	Match string `json:"match,omitempty"`
	At    int64  `json:"at,omitempty"`
	// Select is the color of the objects of a list; empty: all.
	Select string `json:"select,omitempty"`
	Limit  int    `json:"limit,omitempty"`

	// Code is the status of the answer; 0: there was none. With code 0 or from 500 on it is unknown whether a write has happened.
	Code   int    `json:"code"`
	Reason string `json:"reason,omitempty"`
	// Object is the answer of a get or write. Of a deletion, only the UID is known.
	Object *Object `json:"object,omitempty"`
	// Pages are those of a list, one where there was no limit. The last may have no answer; then the rest was not requested.
	Pages []Page `json:"pages,omitempty"`
}

// Page is an answer to a list, or to a part of it.
type Page struct {
	Call     int64    `json:"call"`
	Return   int64    `json:"return"`
	Code     int      `json:"code"`
	Revision int64    `json:"rv,omitempty"`
	Items    []Object `json:"items,omitempty"`
	// Remaining is remainingItemCount; -1: it is missing.
	Remaining int64 `json:"remaining"`
	// More says that there was a continue token.
	More bool `json:"more,omitempty"`
}

// writes says whether the operation is a write.
func (o *Operation) writes() bool { return o.Kind != Get && o.Kind != List }

// unknown says whether it is unknown if a write has happened.
func (o *Operation) unknown() bool { return o.Code == 0 || o.Code >= 500 }

// done says whether the operation succeeded.
func (o *Operation) done() bool { return o.Code >= 200 && o.Code < 300 }

// The types of events.
const (
	Added    = "ADDED"
	Modified = "MODIFIED"
	Deleted  = "DELETED"
	Bookmark = "BOOKMARK"
)

// Event is an event that a watch received.
type Event struct {
	Time   int64  `json:"time"`
	Type   string `json:"type"`
	Object Object `json:"object"` // of a bookmark, only the revision
	// InitialEnd is the annotation k8s.io/initial-events-end of a bookmark.
	InitialEnd bool `json:"initialEnd,omitempty"`
}

// Watch is one stream of events: a resumed watch is several.
type Watch struct {
	Client int   `json:"client"`
	Server int   `json:"server"`
	Call   int64 `json:"call"`
	// Match is the start of the watch. Exact is after the revision At, without a state; Any and MostRecent begin with the state (legacy) or, with
	// Initial, use sendInitialEvents; NotOlder occurs only with Initial.
	Match     string  `json:"match,omitempty"`
	At        int64   `json:"at,omitempty"`
	Initial   bool    `json:"initial,omitempty"`
	Bookmarks bool    `json:"bookmarks,omitempty"`
	Select    string  `json:"select,omitempty"`
	Events    []Event `json:"events,omitempty"`
	// Code is the status of the answer, or of the error that ended the stream; 0: there was no answer.
	Code int `json:"code"`
	// Return is when the code was known.
	Return int64 `json:"return,omitempty"`
	// Complete says that the watch was kept open until the end of the history, and has to have reached it.
	Complete bool `json:"complete,omitempty"`
}

// History has the actions of clients on the objects of a namespace that has no other writers.
type History struct {
	// Start is a revision at which the namespace was empty.
	Start int64 `json:"start"`
	// End is the revision of the last write, which a complete watch has to reach.
	End int64 `json:"end"`
	// Age is how old a change is, in nanoseconds, when servers begin to prune it; 0: they prune none of this history.
	Age int64 `json:"age,omitempty"`
	// Cut says that the history ends early, at no known revision: the last write failed. End is 0 then.
	Cut bool `json:"cut,omitempty"`
	// Loss describes an earlier loss of writes; nil: there was none.
	Loss       *Loss       `json:"loss,omitempty"`
	Operations []Operation `json:"-"`
	Watches    []Watch     `json:"-"`
}

func (o Object) String() string {
	return fmt.Sprintf("%s@%d=%s/%s", o.Name, o.Revision, o.Value, o.Color)
}

func (e Event) String() string {
	if e.Type == Bookmark {
		return fmt.Sprintf("%.6f %s %d end=%t", seconds(e.Time), e.Type, e.Object.Revision, e.InitialEnd)
	}
	return fmt.Sprintf("%.6f %s %v", seconds(e.Time), e.Type, e.Object)
}

func (o *Operation) String() string {
	text := fmt.Sprintf("[%.6f,%.6f] client %d server %d: %s %s", seconds(o.Call), seconds(o.Return), o.Client, o.Server, o.Kind, o.Name)
	if o.writes() && o.Kind != Delete {
		text += fmt.Sprintf(" %s/%s", o.Value, o.Color)
	}
	if o.IfRevision != 0 || o.IfUID != "" {
		text += fmt.Sprintf(" if rv=%d uid=%s", o.IfRevision, o.IfUID)
	}
	if !o.writes() {
		text += fmt.Sprintf(" %s %d %s", matchName(o.Match), o.At, o.Select)
	}
	text += fmt.Sprintf(" -> %d %s", o.Code, o.Reason)
	if o.Object != nil {
		text += " " + o.Object.String()
	}
	for _, p := range o.Pages {
		text += fmt.Sprintf(" page(%d at %d: %v)", p.Code, p.Revision, p.Items)
	}
	return text
}

func (w *Watch) String() string {
	return fmt.Sprintf("[%.6f] client %d server %d: watch %s %d initial=%t select=%q -> %d", seconds(w.Call), w.Client, w.Server,
		matchName(w.Match), w.At, w.Initial, w.Select, w.Code)
}

func matchName(match string) string {
	if match == MostRecent {
		return "most recent"
	}
	return match
}

func seconds(t int64) float64 { return float64(t) / 1e9 }
