package history

import (
	"fmt"
	"slices"
	"strings"
)

// Violation is a promise that a history breaks.
type Violation struct {
	// Rule is one of the Rule constants.
	Rule string
	// Message says what is wrong.
	Message string
	// Evidence are the operations and events that show it.
	Evidence []string
}

func (v Violation) String() string {
	return v.Rule + ": " + v.Message + "\n\t" + strings.Join(v.Evidence, "\n\t")
}

// The rules.
const (
	RuleDurable      = "durable"      // what was acknowledged has happened, once
	RuleHonest       = "honest"       // what was refused or never asked for has not happened; what is shown was written
	RuleLinearizable = "linearizable" // reads, writes and lists at most recent
	RuleRealTime     = "real time"    // resourceVersions grow
	RuleUniqueRV     = "unique rv"    // a resourceVersion is given once
	RuleState        = "state"        // a read shows one state, of the revision that it names
	RuleNotOlder     = "not older"    // a read is not older than asked for
	RuleExact        = "exact"        // a read is of the revision asked for
	RuleHistory      = "history"      // history that was not pruned is served, and tokens are good
	RuleOrdered      = "ordered"      // events come in the order of revisions
	RuleUnique       = "unique"       // an event comes once
	RuleReliable     = "reliable"     // no event is left out
	RuleAtomic       = "atomic"       // an event is all that happened at its revision
	RuleResumable    = "resumable"    // a watch from a revision has what came after it
	RuleBookmarkable = "bookmarkable" // all events up to a bookmark's revision come before it
	RuleLoss         = "loss"         // after writes were lost, nobody goes on as if they were not
	RuleComplete     = "complete"     // a watch comes to the end
)

// Check returns what a history breaks, nothing when it is clean.
func Check(h *History) []Violation {
	c := &checker{history: h.untilEnd()}
	c.gather()
	c.checkLoss()
	c.checkRevisions()
	c.checkLinearizable()
	c.checkReads()
	c.checkWatches()
	return c.found
}

// untilEnd is the history without what came after its end: a write that was given up may happen long after, and then some watches see it
// and others are over. A watch that begins with a state of after the end says nothing of the history.
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

// mostOfARule bounds how many violations of a rule are told.
const mostOfARule = 20

// checker verifies one history.
type checker struct {
	history *History
	log     changeLog
	// fate says of each operation that writes what became of it, by its index.
	fate map[int]fate
	// deletions are those that happened and that nobody was told of.
	deletions []Operation
	// known are the moments at which a higher revision was told than ever before.
	known []moment
	found []Violation
	told  map[string]int
}

// fate is what became of a write whose answer does not say it.
type fate struct {
	happened bool
	revision int64
	// seen is when somebody first saw that it had happened.
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
