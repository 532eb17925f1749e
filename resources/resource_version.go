package resources

import (
	"fmt"
	"math"
	"strconv"
)

// A resourceVersion is a revision in decimal digits (KEP-5504 lets clients compare them). Clients send it in two places:
// RevisionOfParameter and revisionOfObject.

// FormatRevision writes a revision as a resourceVersion.
func FormatRevision(r int64) string { return strconv.FormatInt(r, 10) }

// RevisionOfParameter reads the resourceVersion of a query (get, list, watch). Empty is an error: its meaning depends on the verb. A
// number beyond all revisions is in the future, as any other that is too large.
func RevisionOfParameter(s string) (int64, error) {
	rv, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("resourceVersion: Invalid value: %q: %w", s, err)
	}
	return int64(min(rv, math.MaxInt64)), nil
}

// revisionOfObject reads the metadata.resourceVersion of an object that a client sent. Empty is zero: the client gives none. A number
// beyond all revisions is one that no object has. The error is upstream's, without a prefix.
func revisionOfObject(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	rv, err := strconv.ParseUint(s, 10, 64)
	return int64(min(rv, math.MaxInt64)), err
}
