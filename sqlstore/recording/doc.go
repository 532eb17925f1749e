// Package recording makes, of a write, what the object history keeps of it for people, and gives it back: which fields
// changed, and the object before and after the write, compressed together. It knows bytes alone, no database.
//
// What is kept of a write stands for itself. A chain, in which a revision is a difference to the one before it, would be
// smaller, by the object before; but then each row that goes has to be put into the one after it, each that is missing (the
// history was behind, an object could not be decrypted) loses all that follow it, and a write costs a look for the one
// before. Here rows go in any order, and the object after the write costs what is different of it.
//
//	doc.go      of which resources nothing is kept, and which fields are heartbeats
//	strip.go    an object without what is not kept
//	secrets.go  hashes in place of the values of a Secret
//	changed.go  which fields differ
//	pack.go     the object before and after a write, in one row
package recording

import (
	"strings"
)

// Skips tells of a resource, as in resources.Key, that nothing of it is kept: its objects are heartbeats or reports themselves,
// or no API serves them.
func Skips(resource string) bool {
	switch resource {
	case "events", "events.events.k8s.io", "leases.coordination.k8s.io", "leasecandidates.coordination.k8s.io":
		return true
	}
	return strings.HasSuffix(resource, internalSuffix)
}

// internalSuffix ends the resources of Rowlock's own rows, the keys of the cluster among them.
const internalSuffix = ".rowlock.internal"

// SkipsSQL is Skips of a column, so that a database need not send what is skipped.
func SkipsSQL(column string) string {
	return "(" + column + " IN ('events', 'events.events.k8s.io', 'leases.coordination.k8s.io', 'leasecandidates.coordination.k8s.io') OR " +
		column + " LIKE '%" + internalSuffix + "')"
}

// heartbeats are the last elements of paths that tell no more than that somebody is alive.
var heartbeats = []string{"lastHeartbeatTime", "lastProbeTime", "renewTime"}

// leaderAnnotation is a lease of clients that keep theirs in an annotation.
const leaderAnnotation = "metadata.annotations[control-plane.alpha.kubernetes.io/leader]"

func isHeartbeat(path string) bool {
	if path == leaderAnnotation {
		return true
	}
	for _, h := range heartbeats {
		if strings.HasSuffix(path, "."+h) {
			return true
		}
	}
	return false
}
