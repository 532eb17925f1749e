package history

import (
	"fmt"
	"math"
)

// gatherer makes the log from the events of watches and the answers to writers.
type gatherer struct {
	*checker
	byRevision map[int64]*change
	seenBy     map[int64]string // the watch or client that saw the change of a revision
	byValue    map[string]int   // the writes, by their values
	firstSeen  map[int64]int64  // when a client was first shown the object of a revision
	deletedUID map[string]*change
}

// gather makes the log from the events of all watches that see everything, and from acknowledged writes. Gaps and contradictions are violations, and
// the log continues with the known changes.
func (c *checker) gather() {
	g := &gatherer{checker: c, byRevision: map[int64]*change{}, seenBy: map[int64]string{}, byValue: map[string]int{},
		firstSeen: map[int64]int64{}, deletedUID: map[string]*change{}}
	for i := range c.history.Operations {
		if o := &c.history.Operations[i]; o.writes() && o.Kind != Delete {
			g.byValue[o.Value] = i
		}
	}
	g.observe()
	for i := range c.history.Watches {
		w := &c.history.Watches[i]
		if c.old(w) {
			continue
		}
		for _, e := range w.changes() {
			g.add(e, w.String())
		}
	}
	g.addAcknowledged()
	for revision, change := range g.byRevision {
		change.Time = g.firstSeen[revision]
		c.log.changes = append(c.log.changes, *change)
	}
	c.base()
	c.log.index()
	g.checkVersions()
	g.checkOrigins()
	g.settle()
}

// changes returns the events of a watch that are about changes, for watches that see all of them: no events of an initial state, and none of a watch
// of a single color.
func (w *Watch) changes() []Event {
	if w.Select != "" {
		return nil
	}
	from := 0
	switch {
	case w.Initial:
		from = len(w.Events)
		for i, e := range w.Events {
			if e.InitialEnd {
				from = i + 1
				break
			}
		}
	case w.Match != Exact:
		return nil // the end of the state is not marked
	}
	var events []Event
	for _, e := range w.Events[from:] {
		if e.Type != Bookmark {
			events = append(events, e)
		}
	}
	return events
}

// observe finds when each revision of an object was first seen.
func (g *gatherer) observe() {
	see := func(revision, at int64) {
		if first, seen := g.firstSeen[revision]; !seen || at < first {
			g.firstSeen[revision] = at
		}
	}
	for i := range g.history.Operations {
		o := &g.history.Operations[i]
		if o.Object != nil && o.Object.Revision != 0 {
			see(o.Object.Revision, o.Return)
		}
		for _, p := range o.Pages {
			for _, item := range p.Items {
				see(item.Revision, p.Return)
			}
		}
	}
	for i := range g.history.Watches {
		for _, e := range g.history.Watches[i].Events {
			if e.Type != Bookmark {
				see(e.Object.Revision, e.Time)
			}
		}
	}
}

func (g *gatherer) add(e Event, by string) {
	r := e.Object.Revision
	if r <= g.history.Start {
		g.violate(RuleHonest, []string{by, e.String()}, "an event of revision %d, when there was nothing yet (%d)", r, g.history.Start)
		return
	}
	known := g.byRevision[r]
	if known == nil {
		g.byRevision[r], g.seenBy[r] = &change{Event: e}, by
		if e.Type == Deleted {
			g.deletedUID[e.Object.UID] = g.byRevision[r]
		}
		return
	}
	if known.Object != e.Object || known.Type != e.Type {
		g.violate(RuleUniqueRV, []string{g.seenBy[r], known.String(), by, e.String()}, "two changes at revision %d", r)
	}
}

// addAcknowledged requires that each acknowledged write is among the changes.
func (g *gatherer) addAcknowledged() {
	for i := range g.history.Operations {
		o := &g.history.Operations[i]
		if !o.writes() || !o.done() || o.Object == nil {
			continue
		}
		if o.Kind == Delete {
			if g.deletedUID[o.Object.UID] == nil {
				g.violate(RuleDurable, []string{o.String()}, "no watch saw the acknowledged deletion of %s (%s)", o.Name, o.Object.UID)
			}
			continue
		}
		e := Event{Type: Modified, Object: *o.Object, Time: o.Return}
		if o.Code == 201 {
			e.Type = Added
		}
		if o.Object.Name != o.Name || o.Object.Value != o.Value || o.Object.Color != o.Color {
			g.violate(RuleHonest, []string{o.String()}, "a write was answered with something else")
		}
		if g.byRevision[o.Object.Revision] == nil {
			g.violate(RuleDurable, []string{o.String()}, "no watch saw the acknowledged write of %s at revision %d", o.Name, o.Object.Revision)
		}
		g.add(e, o.String())
	}
}

// checkVersions requires that the changes of an object follow from each other.
func (g *gatherer) checkVersions() {
	for i := range g.log.changes {
		c := &g.log.changes[i]
		evidence := []string{c.String()}
		if c.before != nil {
			evidence = append(evidence, "before: "+c.before.String()+" "+c.before.UID)
		}
		switch {
		case c.Type == Added && c.before != nil:
			g.violate(RuleState, evidence, "%s was added at revision %d, and was there", c.Object.Name, c.Object.Revision)
		case c.Type != Added && c.before == nil:
			g.violate(RuleState, evidence, "%s of %s at revision %d, and it was not there", c.Type, c.Object.Name, c.Object.Revision)
		case c.Type != Added && c.before.UID != c.Object.UID:
			g.violate(RuleState, evidence, "%s of %s at revision %d, which was another object before", c.Type, c.Object.Name, c.Object.Revision)
		case c.Type == Deleted && (c.before.Value != c.Object.Value || c.before.Color != c.Object.Color):
			g.violate(RuleState, evidence, "%s was deleted at revision %d in a state in which it was not", c.Object.Name, c.Object.Revision)
		}
	}
}

// checkOrigins requires that each change was requested by a client, happened once, and was not refused.
func (g *gatherer) checkOrigins() {
	by := map[string]*change{}
	for i := range g.log.changes {
		c := &g.log.changes[i]
		if c.Type == Deleted || c.Object.Revision <= g.history.Start { // of the remaining state
			continue
		}
		at, asked := g.byValue[c.Object.Value]
		if !asked {
			g.violate(RuleHonest, []string{c.String()}, "nobody wrote what was there at revision %d", c.Object.Revision)
			continue
		}
		o := &g.history.Operations[at]
		evidence := []string{o.String(), c.String()}
		switch other := by[o.Value]; {
		case other != nil:
			g.violate(RuleDurable, append(evidence, other.String()), "a write has happened twice")
		case o.Name != c.Object.Name || o.Color != c.Object.Color:
			g.violate(RuleHonest, evidence, "something else was written than somebody asked for")
		case !o.done() && !o.unknown():
			g.violate(RuleHonest, evidence, "a write that was refused has happened")
		case c.Time < o.Call:
			g.violate(RuleHonest, evidence, "a write was seen before it was asked for")
		case o.done() && o.Object != nil && o.Object.Revision != c.Object.Revision:
			g.violate(RuleDurable, evidence, "a write was acknowledged at revision %d, and happened at %d", o.Object.Revision, c.Object.Revision)
		}
		by[o.Value] = c
	}
}

// settle finds the results of writes without an answer. The log has everything that happened: the last watch of a history reads all of it, after the
// last request was answered or abandoned.
func (g *gatherer) settle() {
	g.fate = map[int]fate{}
	byValue := map[string]*change{}
	claimed := map[string]bool{} // the UIDs of objects whose deletion was acknowledged
	for i := range g.log.changes {
		if c := &g.log.changes[i]; c.Type != Deleted {
			byValue[c.Object.Value] = c
		}
	}
	for i := range g.history.Operations {
		o := &g.history.Operations[i]
		switch {
		case !o.writes():
		case o.Kind == Delete && o.done() && o.Object != nil:
			claimed[o.Object.UID] = true
		case o.Kind != Delete && o.unknown():
			if c := byValue[o.Value]; c != nil {
				g.fate[i] = fate{happened: true, revision: c.Object.Revision, seen: c.Time}
			}
		}
	}
	for uid, c := range g.deletedUID {
		if !claimed[uid] {
			g.settleDeletion(c)
		}
	}
}

// settleDeletion finds the clients that may have deleted an object, when none was told that it did. If there are several, any will do: the deletion
// did not happen before the first request.
func (g *gatherer) settleDeletion(c *change) {
	call := int64(math.MaxInt64)
	for i := range g.history.Operations {
		o := &g.history.Operations[i]
		if o.Kind == Delete && o.unknown() && o.Name == c.Object.Name && (o.IfUID == "" || o.IfUID == c.Object.UID) {
			call = min(call, o.Call)
		}
	}
	seen := g.firstSeen[c.Object.Revision]
	if call > seen {
		g.violate(RuleHonest, []string{c.String()}, "%s (%s) was deleted at revision %d, and nobody asked for it", c.Object.Name, c.Object.UID,
			c.Object.Revision)
		return
	}
	g.deletions = append(g.deletions, Operation{Client: -1, Kind: Delete, Name: c.Object.Name, Call: call, Return: seen, Code: 200,
		Reason: fmt.Sprintf("(no answer; deleted at revision %d)", c.Object.Revision), Object: &Object{Name: c.Object.Name, UID: c.Object.UID}})
}
