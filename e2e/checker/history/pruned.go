package history

import (
	"slices"
	"sort"
)

// Servers may prune a change once it is older than History.Age, and then refuse with 410 whatever needs it: a watch from an earlier revision, a list
// exactly at one, and further pages of a list. The rule for all of them is that a refusal at revision R, which a client gets at time T, is right only
// if the change after R can be that old: no request shows that it was made after T minus the age. Younger history has to be served.
//
// Further pages may also be refused once the list itself has that age: without writes, a revision would otherwise stay valid for ever. Servers may be
// late in pruning, so that an answer is always right, if it leaves out nothing.

// bound says that the change of a revision, and all later ones, were made after a time.
type bound struct{ revision, after int64 }

// bounds are in the order of revisions, and so of times.
type bounds []bound

// bounds finds when changes were made at the earliest: a write after its request; and what comes after the revision of a read at most recent, after
// the request of that read.
func (h *History) bounds() bounds {
	var all bounds
	for i := range h.Operations {
		o := &h.Operations[i]
		switch {
		case o.writes() && o.Kind != Delete && o.done() && o.Object != nil:
			all = append(all, bound{o.Object.Revision, o.Call})
		case o.Kind == List && o.Match == MostRecent && len(o.Pages) > 0 && o.Pages[0].Code == 200:
			all = append(all, bound{o.Pages[0].Revision + 1, o.Pages[0].Call})
		}
	}
	for i := range h.Watches {
		w := &h.Watches[i]
		if at := slices.IndexFunc(w.Events, func(e Event) bool { return e.InitialEnd }); at >= 0 && w.Match == MostRecent {
			all = append(all, bound{w.Events[at].Object.Revision + 1, w.Call})
		}
	}
	slices.SortFunc(all, func(a, b bound) int { return int(a.revision - b.revision) })
	for i := 1; i < len(all); i++ {
		all[i].after = max(all[i].after, all[i-1].after)
	}
	return all
}

// of returns a time after which the change of a revision was made. All were made after the clock of the recorder began.
func (b bounds) of(revision int64) int64 {
	i := sort.Search(len(b), func(i int) bool { return b[i].revision > revision })
	if i == 0 {
		return 0
	}
	return b[i-1].after
}

// prunable says whether the change after a revision can have been pruned at a time.
func (c *checker) prunable(revision, at int64) bool {
	return c.history.Age > 0 && at-c.bounds.of(revision+1) >= c.history.Age
}

// pageMayBeRefused says whether 410 can be right for a page of a list: the page of a token, or the first of a list at exactly one revision.
func (c *checker) pageMayBeRefused(o *Operation, page int) bool {
	switch {
	case page > 0:
		at := o.Pages[page].Return
		return c.prunable(o.Pages[0].Revision, at) || c.history.Age > 0 && at-o.Pages[0].Call >= c.history.Age
	case o.Match == Exact:
		return c.prunable(o.At, o.Pages[page].Return)
	default:
		return false
	}
}

// refused requires that a watch was refused, or ended with 410, only if the change after its position can have been pruned.
func (s *stream) refused() {
	if s.watch.Code == 410 && !s.prunable(s.position, s.watch.Return) {
		s.violate(RuleHistory, s.evidence(Event{Type: "(410)", Time: s.watch.Return}), "a watch was refused history after revision %d that was not pruned", s.position)
	}
}

// refusedState requires the same of a watch that ended before the state with which it begins was complete. That state is not older than the request,
// if it is at most recent; if it is not, nothing is known.
func (s *stream) refusedState() {
	w := s.watch
	if w.Code == 410 && (s.history.Age == 0 || w.Match == MostRecent && w.Return-w.Call < s.history.Age) {
		s.violate(RuleHistory, []string{w.String()}, "a watch was refused a state")
	}
}
