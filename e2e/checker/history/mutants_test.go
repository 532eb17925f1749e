package history

import (
	"fmt"
	"slices"
	"testing"
)

// mutants are stores that lie, and the rules one of which has to be reported.
var mutants = map[string][]string{
	"event lost":                 {RuleReliable, RuleBookmarkable},
	"event lost after resume":    {RuleResumable, RuleBookmarkable},
	"event lost by all":          {RuleDurable},
	"event repeated":             {RuleUnique},
	"events swapped":             {RuleOrdered},
	"event of another state":     {RuleAtomic, RuleUniqueRV},
	"bookmark too early":         {RuleBookmarkable},
	"initial event lost":         {RuleState, RuleOrdered, RuleReliable, RuleBookmarkable},
	"selector's DELETED lost":    {RuleReliable, RuleBookmarkable},
	"selector's ADDED wrong":     {RuleAtomic},
	"watch hangs":                {RuleComplete},
	"stale get":                  {RuleLinearizable},
	"stale get not older":        {RuleNotOlder},
	"stale list":                 {RuleRealTime},
	"stale list, new revision":   {RuleState},
	"torn list":                  {RuleState},
	"stale page":                 {RuleState},
	"page skips":                 {RuleState},
	"page refused":               {RuleHistory},
	"list not exact":             {RuleExact},
	"list older":                 {RuleNotOlder},
	"acknowledged write lost":    {RuleDurable, RuleUniqueRV},
	"acknowledged deletion lost": {RuleDurable, RuleRealTime},
	"precondition ignored":       {RuleLinearizable},
	"refused write happens":      {RuleHonest},
	"write happens twice":        {RuleDurable},
	"rv given twice":             {RuleUniqueRV, RuleDurable},
	"rv goes back":               {RuleRealTime},
	"created over another":       {RuleLinearizable},
}

// TestMutants checks that each mutant is detected, in any order of operations.
func TestMutants(t *testing.T) {
	t.Parallel()
	for bug, rules := range mutants {
		t.Run(bug, func(t *testing.T) {
			t.Parallel()
			fired := 0
			for seed := range uint64(8) {
				s := simulate(seed, 2000, bug)
				if !s.fired {
					continue
				}
				fired++
				found := Check(&s.history)
				if !slices.ContainsFunc(found, func(v Violation) bool { return slices.Contains(rules, v.Rule) }) {
					t.Fatalf("seed %d: not caught; found %.1000s", seed, fmt.Sprint(found))
				}
			}
			if fired < 6 {
				t.Errorf("the mutant has lied in %d of 8 histories", fired)
			}
		})
	}
}

// TestClean checks that there is no false alarm, although requests without answers happen late, or not at all.
func TestClean(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		s := simulate(seed, 3000, "")
		if found := Check(&s.history); len(found) > 0 {
			t.Fatalf("seed %d: %d violations; the first: %v", seed, len(found), found[0])
		}
	}
}

// TestAfterTheEnd checks a write that was abandoned and happens after the end. Watches that are not over yet see it, and the others do not.
func TestAfterTheEnd(t *testing.T) {
	t.Parallel()
	s := simulate(1, 2000, "")
	given := Operation{Kind: Apply, Name: "late", Value: "late", Color: "red", Call: 1, Return: 2}
	s.history.Operations = append(s.history.Operations, given)
	late := Event{Time: s.now + 1, Type: Added, Object: Object{Name: "late", UID: "late", Value: "late", Color: "red", Revision: s.history.End + 1}}
	for i := range s.history.Watches {
		if w := &s.history.Watches[i]; w.Complete && w.Select == "red" {
			w.Events = append(w.Events, late)
		}
	}
	if found := Check(&s.history); len(found) > 0 {
		t.Errorf("%d violations; the first: %v", len(found), found[0])
	}
}

// happen returns the effect of a request, and the recording of its answer.
func (s *simulation) happen(c *client) func() {
	return func() {
		switch o := c.op; o.Kind {
		case Get:
			s.get(c)
		case List:
			s.list(c)
		default:
			s.write(c)
		}
	}
}

func (s *simulation) get(c *client) {
	o, at := c.op, s.revision()
	if o.Match == Any || o.Match == NotOlder {
		at = max(o.At, s.known)
	}
	if c.acked > 0 && o.Match == MostRecent && s.is("stale get") {
		at = c.acked - 1
	}
	if o.Match == NotOlder {
		if before, _ := s.log.latest(o.Name, o.At); before != nil && s.log.object(o.Name, before.Object.Revision-1) != nil && s.is("stale get not older") {
			at = before.Object.Revision - 1
		}
	}
	o.Object, o.Code = nil, 404
	if object := s.log.object(o.Name, at); object != nil {
		copied := *object
		o.Object, o.Code = &copied, 200
	}
}

func (s *simulation) list(c *client) {
	o := c.op
	p := Page{Call: s.now, Code: 200, Remaining: -1}
	if len(o.Pages) == 0 {
		p.Call = o.Call
		switch o.Match {
		case Exact:
			c.list = o.At
		case NotOlder:
			c.list = max(o.At, s.known)
		default:
			c.list = s.revision()
		}
		switch {
		case o.Match == MostRecent && s.is("stale list"):
			c.list = c.atCall - 1
		case o.Match == Exact && s.is("list not exact"):
			c.list++
		case o.Match == NotOlder && s.is("list older"):
			c.list = o.At - 1
		}
	}
	if len(o.Pages) > 0 && c.list < s.floor || len(o.Pages) == 0 && o.Match == Exact && s.refuses(c.list, "list refused too early") {
		o.Pages, o.Code = append(o.Pages, Page{Call: p.Call, Code: 410, Revision: c.list}), 410
		return
	}
	p.Revision = c.list
	shown := c.list
	older := s.log.state(c.list-3, o.Select)
	now := s.log.state(c.list, o.Select)
	if !slices.Equal(older, now) && o.Limit == 0 && s.is("stale list, new revision") {
		shown = c.list - 3
	}
	if c.from > 0 && len(now) > c.from && s.is("stale page") {
		p.Revision = c.list + 1
	}
	items := s.log.state(shown, o.Select)
	if o.Limit == 0 && len(items) > 2 && len(now) == len(items) {
		if before := s.log.object(items[1].Name, items[1].Revision-1); before != nil && s.is("torn list") {
			items[1] = *before
		}
	}
	items = items[min(c.from, len(items)):]
	if c.from > 0 && len(items) > 1 && s.is("page skips") {
		items = items[1:]
	}
	if o.Limit > 0 && len(items) > o.Limit {
		p.Remaining, p.More = int64(len(items)-o.Limit), true
		items = items[:o.Limit]
	}
	if c.from > 0 && s.is("page refused") {
		p = Page{Call: s.now, Code: 410, Revision: c.list}
		items = nil
	}
	c.from += len(items)
	p.Items = items
	o.Pages, o.Code = append(o.Pages, p), 200
}

func (s *simulation) write(c *client) {
	o := c.op
	object := s.log.object(o.Name, s.revision())
	o.Code, o.Object = 404, nil
	switch {
	case o.Kind == Create && object != nil:
		o.Code = 409
		if s.is("created over another") {
			break
		}
		if !c.unheard && s.is("refused write happens") {
			s.commit(Modified, Object{Name: o.Name, UID: object.UID, Value: o.Value, Color: o.Color})
		}
		return
	case object == nil && o.Kind != Create && o.Kind != Apply:
		return
	case o.IfRevision != 0 && o.IfRevision != object.Revision && (c.unheard || !s.is("precondition ignored")):
		o.Code = 409
		return
	}
	o.Code = 200
	if o.Kind == Delete {
		s.remove(c, *object)
		return
	}
	kind, made := Modified, Object{Name: o.Name, Value: o.Value, Color: o.Color}
	if object == nil || o.Kind == Create {
		s.uids++
		kind, o.Code, made.UID = Added, 201, fmt.Sprint("uid-", s.uids)
	} else {
		made.UID = object.UID
	}
	if !c.unheard && s.is("acknowledged write lost") {
		made.Revision = s.revision() + 1
		o.Object = &made
		return
	}
	made = s.commit(kind, made)
	if !c.unheard && kind == Modified && s.is("write happens twice") {
		s.commit(kind, made)
	}
	if !c.unheard && s.is("event lost by all") {
		s.hidden[made.Revision] = true
	}
	if !c.unheard && s.is("rv goes back") {
		s.log.changes[len(s.log.changes)-1].Object.Revision = c.atCall
		s.log.changes = slices.Clone(s.log.changes)
		made.Revision = c.atCall
		s.log.index()
	}
	o.Object = &made
}

func (s *simulation) remove(c *client, object Object) {
	c.op.Object = &Object{Name: object.Name, UID: object.UID}
	if !c.unheard && s.is("acknowledged deletion lost") {
		return
	}
	s.commit(Deleted, object)
}

// deliver gives a watch its next event, and says whether there was one.
func (s *simulation) deliver(w *watcher) bool {
	if s.IntN(8) == 0 {
		w.Events = append(w.Events, Event{Time: s.now, Type: Bookmark, Object: Object{Revision: w.cursor}})
	}
	if w.forever && s.bug == "watch hangs" && (s.now > 500 || s.fired) {
		s.fired = true
		return false
	}
	if s.refuses(w.cursor, "watch refused too early") {
		if w.cursor >= s.floor || !s.is("pruned events skipped") {
			w.Code, w.Return = 410, s.now
			return false
		}
		w.cursor = s.floor
	}
	resumed := len(w.Events) == 0 && w.Match == Exact && w.At > s.history.Start
	for i := s.log.position(w.cursor); i < len(s.log.changes); i++ {
		e, seen := s.log.changes[i].seenBy(w.Select)
		w.cursor = s.log.changes[i].Object.Revision
		if !seen || s.hidden[w.cursor] {
			continue
		}
		e.Time = s.now
		switch {
		case w.forever && len(w.Events) > 0 && s.is("event lost"):
			continue
		case resumed && i+1 < len(s.log.changes) && s.is("event lost after resume"):
			continue
		case w.forever && w.Select != "" && e.Type == Deleted && s.log.changes[i].Type != Deleted && s.is("selector's DELETED lost"):
			continue
		case w.Select != "" && e.Type == Added && s.log.changes[i].Type != Added && s.is("selector's ADDED wrong"):
			e.Type = Modified
		case e.Type == Modified && s.is("event of another state"):
			e.Object.Value = s.log.changes[i].before.Value
		case s.is("event repeated"):
			w.Events = append(w.Events, e)
		case s.is("bookmark too early"):
			w.Events = append(w.Events, Event{Time: s.now, Type: Bookmark, Object: Object{Revision: w.cursor}})
		case w.Select == "" && i+1 < len(s.log.changes) && !s.hidden[s.log.changes[i+1].Object.Revision] && s.is("events swapped"):
			next := s.log.changes[i+1].Event
			next.Time, w.cursor = s.now, next.Object.Revision
			w.Events = append(w.Events, next)
		}
		w.Events = append(w.Events, e)
		return true
	}
	return false
}
