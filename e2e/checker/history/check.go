package history

import (
	"fmt"
	"slices"
	"strings"
)

// Violation is a guarantee that a history breaks.
type Violation struct {
	// Rule is one of the Rule constants.
	Rule string
	// Message describes the violation.
	Message string
	// Evidence are the operations and events that prove it.
	Evidence []string
}

func (v Violation) String() string {
	return v.Rule + ": " + v.Message + "\n\t" + strings.Join(v.Evidence, "\n\t")
}

// The rules.
const (
	RuleDurable      = "durable"      // an acknowledged write has happened, once
	RuleHonest       = "honest"       // a refused or unrequested write has not happened; shown values were written
	RuleLinearizable = "linearizable" // reads, writes and lists at most recent
	RuleRealTime     = "real time"    // resourceVersions grow
	RuleUniqueRV     = "unique rv"    // a resourceVersion is given once
	RuleState        = "state"        // a read shows one state, that of its revision
	RuleNotOlder     = "not older"    // a read is not older than requested
	RuleExact        = "exact"        // a read is of the requested revision
	RuleHistory      = "history"      // history that is too young to be pruned is served, and continue tokens are valid
	RuleOrdered      = "ordered"      // events come in the order of revisions
	RuleUnique       = "unique"       // an event comes once
	RuleReliable     = "reliable"     // no event is left out
	RuleAtomic       = "atomic"       // an event includes all changes of its revision
	RuleResumable    = "resumable"    // a watch from a revision has all later events
	RuleBookmarkable = "bookmarkable" // all events up to a bookmark's revision come before it
	RuleLoss         = "loss"         // after a loss of writes, no client continues as if there were none
	RuleComplete     = "complete"     // a watch reaches the end
)

// Check returns the violations of a history up to the revision that Verifiable returns; none when it is clean.
func Check(h *History) []Violation {
	c := &checker{history: h.withFlight().prefix().untilEnd(), bounds: h.bounds()}
	c.gather()
	c.checkLoss()
	c.checkRevisions()
	c.checkLinearizable()
	c.checkReads()
	c.checkWatches()
	return c.found
}

// untilEnd is the history without everything after its end: an abandoned write may happen long after, and then some watches see it while others are
// over. A watch that begins with a state of after the end proves nothing about the history.
func (h *History) untilEnd() *History {
	whole := *h
	whole.Watches = nil
	for _, w := range h.Watches {
		late := func(e Event) bool { return e.Type != Bookmark && e.Object.Revision > h.End }
		if !slices.ContainsFunc(w.Events, late) {
			whole.Watches = append(whole.Watches, w)
		} else if w.Match == Exact && !w.Initial {
			w.Events = slices.DeleteFunc(slices.Clone(w.Events), late)
			whole.Watches = append(whole.Watches, w)
		}
	}
	return &whole
}

// mostOfARule limits the reported violations of a rule.
const mostOfARule = 20

// checker verifies one history.
type checker struct {
	history *History
	log     changeLog
	// fate has the result of each write, by the index of its operation.
	fate map[int]fate
	// deletions are those that happened without an answer to any client.
	deletions []Operation
	// bounds tell how old a change can be.
	bounds bounds
	// known are the moments at which a client was told a higher revision than ever before.
	known []moment
	found []Violation
	told  map[string]int
}

// fate is the result of a write whose answer does not tell it.
type fate struct {
	happened bool
	revision int64
	// seen is when a client first saw that it had happened.
	seen int64
}

func (c *checker) violate(rule string, evidence []string, format string, args ...any) {
	if c.told == nil {
		c.told = map[string]int{}
	}
	if c.told[rule]++; c.told[rule] <= mostOfARule {
		c.found = append(c.found, Violation{Rule: rule, Message: fmt.Sprintf(format, args...), Evidence: evidence})
	}
}
