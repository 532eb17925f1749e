// Package recording encodes what the object history keeps of a write, and decodes it: which fields changed, and the
// object before and after the write, compressed together. It handles only bytes, and no database.
//
// The row of a write is self-contained. A chain of differences between revisions would be smaller by the object before
// the write; but then a row that is deleted has to be merged into the next one, a missing row (the history was behind,
// an object could not be decrypted) makes all later ones useless, and a write needs a query for its predecessor. Here
// rows can be deleted in any order, and the object after the write costs only what differs.
//
//	doc.go      resources that are not recorded, and fields that are heartbeats
//	strip.go    removing parts of an object that are not kept
//	secrets.go  replacing the values of a Secret by hashes
//	changed.go  which fields differ
//	pack.go     the object before and after a write, in one row
package recording

import (
	"strings"
)

// Skips reports whether writes of a resource, as in resources.Key, are not recorded: its objects are heartbeats or
// reports themselves, or no API serves them.
func Skips(resource string) bool {
	switch resource {
	case "events", "events.events.k8s.io", "leases.coordination.k8s.io", "leasecandidates.coordination.k8s.io":
		return true
	}
	return strings.HasSuffix(resource, internalSuffix)
}

// internalSuffix is the suffix of the resources of Rowlock's own rows, such as the keys of the cluster.
const internalSuffix = ".rowlock.internal"

// SkipsSQL is Skips for a column, so that a database need not send skipped objects.
func SkipsSQL(column string) string {
	return "(" + column + " IN ('events', 'events.events.k8s.io', 'leases.coordination.k8s.io', 'leasecandidates.coordination.k8s.io') OR " +
		column + " LIKE '%" + internalSuffix + "')"
}

// heartbeats are the last elements of paths below status whose changes only show that a client is alive. Elsewhere the
// same names are content: a key of a ConfigMap, a label, a field of a specification.
var heartbeats = []string{"lastHeartbeatTime", "lastProbeTime", "renewTime"}

// leaderAnnotation is the lease of clients that keep it in an annotation.
const leaderAnnotation = "metadata.annotations[control-plane.alpha.kubernetes.io/leader]"

func isHeartbeat(path string) bool {
	if path == leaderAnnotation {
		return true
	}
	if !strings.HasPrefix(path, "status.") {
		return false
	}
	for _, h := range heartbeats {
		if strings.HasSuffix(path, "."+h) {
			return true
		}
	}
	return false
}
