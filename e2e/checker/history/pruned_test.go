package history

import (
	"slices"
	"testing"
)

// simulatedAge is how many steps a change is kept.
const simulatedAge = 60

// prune removes what is too old, some time after it is.
func (s *simulation) prune() {
	if s.history.Age == 0 || s.IntN(10) > 0 {
		return
	}
	for _, c := range s.log.changes {
		if s.now-s.made[c.Object.Revision] < s.history.Age {
			return
		}
		s.floor = c.Object.Revision
	}
}

// refuses says whether the changes after a revision are refused. The bug refuses some that are new.
func (s *simulation) refuses(after int64, bug string) bool {
	if after < s.floor {
		return true
	}
	i := s.log.position(after)
	return s.bug == bug && i < len(s.log.changes) && s.now-s.made[s.log.changes[i].Object.Revision] < simulatedAge/2 && s.is(bug)
}

// read gives a watch its next event, or all where changes are pruned. A watch that is refused begins again with the state, as informers do.
func (s *simulation) read(w *watcher) {
	for s.deliver(w) && s.history.Age > 0 {
	}
	if w.Code != 410 {
		return
	}
	s.history.Watches = append(s.history.Watches, w.Watch)
	s.watchers = slices.DeleteFunc(s.watchers, func(other *watcher) bool { return other == w })
	s.watch(Watch{Match: MostRecent, Initial: true, Select: w.Select}, w.forever)
}

// TestPruned checks that there is no false alarm where old changes are pruned, and that stores are detected which refuse too much, or too little.
func TestPruned(t *testing.T) {
	t.Parallel()
	for bug, rules := range map[string][]string{
		"":                        nil,
		"pruned events skipped":   {RuleResumable, RuleReliable, RuleBookmarkable, RuleDurable},
		"watch refused too early": {RuleHistory},
		"list refused too early":  {RuleHistory},
		"event lost":              mutants["event lost"],
		"event lost after resume": mutants["event lost after resume"],
		"stale list":              mutants["stale list"],
	} {
		t.Run(bug, func(t *testing.T) {
			t.Parallel()
			fired, caught, whole, refused := 0, 0, 0, 0
			const seeds = 20
			for seed := range uint64(seeds) {
				s := simulatePruned(seed, 2500, bug, simulatedAge)
				if Verifiable(&s.history) == s.history.End {
					whole++
				}
				for i := range s.history.Watches {
					if s.history.Watches[i].Code == 410 {
						refused++
					}
				}
				found := Check(&s.history)
				if !s.fired && len(found) > 0 {
					t.Fatalf("seed %d: %d violations; the first: %v", seed, len(found), found[0])
				}
				if s.fired {
					fired++
				}
				if slices.ContainsFunc(found, func(v Violation) bool { return slices.Contains(rules, v.Rule) }) {
					caught++
				}
			}
			t.Logf("of %d histories, %d can be verified to the end; the mutant has lied in %d, and was caught in %d; %d watches were refused", seeds, whole, fired,
				caught, refused)
			// A lie cannot be seen if the watch is refused before its next event, or has passed over changes that it does not show.
			if whole < seeds*3/4 || refused < seeds || bug != "" && (fired < seeds*3/4 || caught < fired*2/3) {
				t.Error("too few")
			}
		})
	}
}

// TestCut checks histories that end early, or miss events for a good reason: what comes after the last known change gives no false alarm, and what comes
// before is verified.
func TestCut(t *testing.T) {
	t.Parallel()
	for _, bug := range []string{"", "event lost", "stale list, new revision", "acknowledged write lost", "precondition ignored", "rv goes back"} {
		caught := 0
		const seeds = 20
		for seed := range uint64(seeds) {
			s := simulate(seed, 2000, bug)
			h := s.history
			changes := s.log.changes
			last := changes[len(changes)*3/4].Object.Revision
			h.Watches = nil
			for _, w := range s.history.Watches {
				if w.Select == "" {
					w.Events = slices.DeleteFunc(slices.Clone(w.Events), func(e Event) bool { return e.Object.Revision > last })
				}
				h.Watches = append(h.Watches, w)
			}
			h.End, h.Cut = 0, true
			if end := Verifiable(&h); end > last || end < changes[len(changes)/2].Object.Revision {
				t.Fatalf("seed %d: verified up to %d; the last known change is %d", seed, end, last)
			}
			found := Check(&h)
			if bug == "" && len(found) > 0 {
				t.Fatalf("seed %d: %d violations; the first: %v", seed, len(found), found[0])
			}
			if slices.ContainsFunc(found, func(v Violation) bool { return slices.Contains(mutants[bug], v.Rule) }) {
				caught++
			}
		}
		if bug != "" && caught < seeds/2 {
			t.Errorf("%s: caught in %d of %d histories", bug, caught, seeds)
		}
	}
}
