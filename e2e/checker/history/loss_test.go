package history

import (
	"slices"
	"testing"
)

// lossy is a history in which one of two writes was lost, and clients continued.
func lossy() (before, after *History) {
	kept := Object{Name: "a", UID: "ua", Revision: 11, Value: "1-1", Color: "red"}
	lost := Object{Name: "b", UID: "ub", Revision: 12, Value: "1-2", Color: "red"}
	before = &History{Start: 10, End: 12, Operations: []Operation{
		{Kind: Create, Name: "a", Value: "1-1", Color: "red", Call: 1, Return: 2, Code: 201, Object: &kept},
		{Kind: Create, Name: "b", Value: "1-2", Color: "red", Call: 3, Return: 4, Code: 201, Object: &lost},
	}, Watches: []Watch{{Match: Exact, At: 10, Code: 200, Complete: true, Events: []Event{{Time: 5, Type: Added, Object: kept}, {Time: 6, Type: Added, Object: lost}}}}}
	changed := Object{Name: "a", UID: "ua", Revision: 101, Value: "after-1", Color: "red"}
	after = &History{Start: 100, End: 101, Loss: NewLoss(before, 11), Operations: []Operation{
		{Kind: List, Match: Exact, At: 12, Call: 1, Return: 2, Code: 410, Pages: []Page{{Call: 1, Return: 2, Code: 410}}},
		{Kind: List, Limit: 1, Call: 1, Return: 4, Code: 410, Pages: []Page{
			{Call: 1, Return: 2, Code: 200, Revision: 12, Items: []Object{kept}, Remaining: 1, More: true}, {Call: 3, Return: 4, Code: 410}}},
		{Kind: Get, Name: "b", Call: 5, Return: 6, Code: 404},
		{Kind: List, Call: 5, Return: 6, Code: 200, Pages: []Page{{Call: 5, Return: 6, Code: 200, Revision: 100, Items: []Object{kept}, Remaining: -1}}},
		{Kind: Update, Name: "a", Value: "after-1", Color: "red", IfRevision: 11, Call: 7, Return: 8, Code: 200, Object: &changed},
	}, Watches: []Watch{
		{Match: Exact, At: 12, Code: 410, Call: 1},
		{Match: MostRecent, Initial: true, Call: 5, Code: 200, Complete: true, Events: []Event{{Time: 6, Type: Added, Object: kept},
			{Time: 6, Type: Bookmark, InitialEnd: true, Object: Object{Revision: 100}}, {Time: 9, Type: Modified, Object: changed}}},
		{Match: Exact, At: 100, Code: 200, Complete: true, Events: []Event{{Time: 9, Type: Modified, Object: changed}}},
	}}
	flown := Object{Name: "f", UID: "uf", Revision: 99, Value: "f-2", Color: "red"}
	after.Loss.State = []Object{kept, flown}
	after.Loss.Over = 2
	after.Loss.Flight = []Operation{
		{Kind: Apply, Name: "f", Value: "f-0", Color: "red", Call: 1, Return: 1, Code: 201, Object: &Object{Name: "f", UID: "lost", Revision: 13, Value: "f-0", Color: "red"}},
		{Kind: Apply, Name: "f", Value: "f-1", Color: "red", Call: 2, Return: 3},
		{Kind: Apply, Name: "f", Value: "f-2", Color: "red", Call: 4, Return: 5, Code: 201, Object: &flown},
	}
	after.Operations[3].Pages[0].Items = append(after.Operations[3].Pages[0].Items, flown)
	events := after.Watches[1].Events
	after.Watches[1].Events = slices.Insert(events, 1, Event{Time: 6, Type: Added, Object: flown})
	return before, after
}

// TestLoss checks that each forbidden answer after a loss is detected.
func TestLoss(t *testing.T) {
	t.Parallel()
	lost := Object{Name: "b", UID: "ub", Revision: 12, Value: "1-2", Color: "red"}
	for name, c := range map[string]struct {
		lie  func(*History)
		rule string
	}{
		"nobody lies": {lie: func(*History) {}},
		"the counter goes on where it was": {rule: RuleLoss, lie: func(h *History) {
			h.Start, h.Operations[3].Pages[0].Revision = 12, 12
		}},
		"a revision is given twice": {rule: RuleLoss, lie: func(h *History) {
			h.Start = 11
			h.Operations[4].Object.Revision = 12
		}},
		"more is lost than was not saved":   {rule: RuleLoss, lie: func(h *History) { h.Loss.State = h.Loss.State[1:] }},
		"what is left never was":            {rule: RuleLoss, lie: func(h *History) { h.Loss.State[0] = lost }},
		"a write of after the loss is lost": {rule: RuleDurable, lie: func(h *History) { h.Loss.State = h.Loss.State[:1] }},
		"a write of after the loss is undone": {rule: RuleDurable, lie: func(h *History) {
			h.Loss.State[1].Revision, h.Loss.State[1].Value = 98, "f-1"
		}},
		"a write in flight is left as another": {rule: RuleUniqueRV, lie: func(h *History) { h.Loss.State[1].Value = "f-1" }},
		"nobody wrote what is left in flight":  {rule: RuleHonest, lie: func(h *History) { h.Loss.State[1].Value = "f-3" }},
		"a revision told in flight is given again": {rule: RuleRealTime, lie: func(h *History) {
			h.Loss.Flight[2].Object.Revision, h.Loss.State[1].Revision = 13, 13
		}},
		"the counter goes on below one told in flight": {rule: RuleRealTime, lie: func(h *History) { h.Loss.Flight[0].Object.Revision = 150 }},
		"an old watch shows a revision of after the loss": {rule: RuleLoss, lie: func(h *History) {
			h.Watches[0] = Watch{Match: Exact, At: 12, Code: 200, Events: []Event{{Time: 9, Type: Added, Object: Object{Name: "f", Revision: 99}}}}
		}},
		"an old watch goes on":               {rule: RuleLoss, lie: func(h *History) { h.Watches[0] = h.Watches[2]; h.Watches[0].At = 12 }},
		"an old watch hears nothing":         {rule: RuleComplete, lie: func(h *History) { h.Watches[0].Complete = true }},
		"a watch is refused that is not old": {rule: RuleHistory, lie: func(h *History) { h.Watches[0].At = 100 }},
		"an old state is shown": {rule: RuleLoss, lie: func(h *History) {
			h.Operations[0].Pages[0] = Page{Call: 7, Code: 200, Revision: 12, Items: []Object{{Name: "a", UID: "ua", Revision: 11, Value: "1-1", Color: "red"}, lost}}
		}},
		"an old state is shown that never was": {rule: RuleState, lie: func(h *History) { h.Operations[0].Pages[0] = Page{Call: 1, Code: 200, Revision: 12} }},
		"a list from before goes on": {rule: RuleLoss, lie: func(h *History) {
			h.Operations[1].Pages[1] = Page{Call: 7, Code: 200, Revision: 12, Items: []Object{lost}}
		}},
		"a list of what is lost, new revision":   {rule: RuleState, lie: func(h *History) { h.Operations[3].Pages[0].Items = append(h.Operations[3].Pages[0].Items, lost) }},
		"what is lost can be got":                {rule: RuleState, lie: func(h *History) { h.Operations[2].Code, h.Operations[2].Object = 200, &lost }},
		"the precondition is a revision of lost": {rule: RuleLinearizable, lie: func(h *History) { h.Operations[4].IfRevision = 12 }},
		"what is lost is in the initial events": {rule: RuleState, lie: func(h *History) {
			h.Watches[1].Events = slices.Insert(h.Watches[1].Events, 1, Event{Time: 6, Type: Added, Object: lost})
		}},
	} {
		before, after := lossy()
		c.lie(after)
		found := append(Check(before), Check(after)...)
		if c.rule == "" && len(found) > 0 {
			t.Errorf("%s: %v", name, found)
		}
		if c.rule != "" && !slices.ContainsFunc(found, func(v Violation) bool { return v.Rule == c.rule }) {
			t.Errorf("%s: not caught as %s: %v", name, c.rule, found)
		}
	}
}
