package history

import "slices"

// Loss describes the loss before a history: the store was put back to an earlier state, because a dump was restored, or a replica without the last
// writes became the primary. The earlier history was verified before.
type Loss struct {
	// Told is the highest revision that any client was told before. None up to it may be given again, or be used for the new history.
	Told int64 `json:"told"`
	// Saved is a revision whose state was certainly saved.
	Saved int64 `json:"saved"`
	// State is the remaining state, as the first list shows it.
	State []Object `json:"state"`
	// Flight are writes that were requested before or while writes were lost, or soon after, by clients that write an object of their own each. Over is
	// when writes were lost; those requested later are not.
	Flight []Operation `json:"flight,omitempty"`
	Over   int64       `json:"over,omitempty"`
	// Start and Log are those of the earlier history.
	Start int64   `json:"start"`
	Log   []Event `json:"log"`
}

// NewLoss returns the loss between h and the next history, without the state.
func NewLoss(h *History, saved int64) *Loss {
	c := &checker{history: h.untilEnd()}
	c.gather()
	l := &Loss{Told: h.End, Saved: saved, Start: h.Start}
	for i := range c.log.changes {
		l.Log = append(l.Log, c.log.changes[i].Event)
	}
	for _, m := range c.moments() {
		l.Told = max(l.Told, m.revision)
	}
	return l
}

// log is that of the earlier history.
func (l *Loss) log() *changeLog {
	log := &changeLog{}
	for _, e := range l.Log {
		log.changes = append(log.changes, change{Event: e})
	}
	log.index()
	return log
}

// before says whether a revision belongs to the earlier history.
func (c *checker) before(revision int64) bool {
	return c.history.Loss != nil && revision <= c.history.Loss.Told
}

// old says whether a watch continues one from before the loss.
func (c *checker) old(w *Watch) bool { return w.Match == Exact && c.before(w.At) }

// oldList says whether a list is of a state before the loss.
func (c *checker) oldList(o *Operation) bool {
	return o.Kind == List && (o.Match == Exact && c.before(o.At) || len(o.Pages) > 0 && o.Pages[0].Code == 200 && c.before(o.Pages[0].Revision))
}

// base adds the remaining state to the log.
func (c *checker) base() {
	if c.history.Loss == nil {
		return
	}
	for _, o := range c.history.Loss.State {
		c.log.changes = append(c.log.changes, change{Event: Event{Type: Added, Object: o}})
	}
}

// checkLoss requires that the remaining state is one that existed; that the revisions continue above all that any client was told; that no watch
// continues from an earlier revision; and that a server that knows of the loss no longer shows earlier states.
func (c *checker) checkLoss() {
	l := c.history.Loss
	if l == nil {
		return
	}
	if c.history.Start <= l.Told {
		c.violate(RuleLoss, nil, "after writes were lost, the revision is %d, and somebody was told %d before", c.history.Start, l.Told)
	}
	c.checkLeft(l)
	c.checkFlight(l)
	for i := range c.history.Watches {
		w := &c.history.Watches[i]
		if !c.old(w) {
			continue
		}
		if at := slices.IndexFunc(w.Events, func(e Event) bool { return !c.before(e.Object.Revision) }); at >= 0 {
			c.violate(RuleLoss, []string{w.String(), w.Events[at].String()}, "a watch from revision %d goes on after writes were lost, as if they were not",
				w.At)
		}
		if w.Complete {
			c.violate(RuleComplete, []string{w.String()}, "a watch from a revision before writes were lost is never refused")
		}
	}
	past, aware := l.log(), c.aware()
	for i := range c.history.Operations {
		if o := &c.history.Operations[i]; c.oldList(o) {
			c.checkOldList(o, past, aware)
		}
	}
}

// aware is when each server first showed a revision of after the loss. Until then it need not know of it.
func (c *checker) aware() map[int]int64 {
	all := map[int]int64{}
	see := func(server int, revision, at int64) {
		if first, seen := all[server]; !c.before(revision) && (!seen || at < first) {
			all[server] = at
		}
	}
	for i := range c.history.Operations {
		o := &c.history.Operations[i]
		if o.Object != nil && o.Kind != Delete {
			see(o.Server, o.Object.Revision, o.Return)
		}
		for _, p := range o.Pages {
			if p.Code == 200 {
				see(o.Server, p.Revision, p.Return)
			}
		}
	}
	return all
}

// checkOldList requires that a list of before the loss shows the state of that time, and that a server refuses it once it has shown a revision
// of after the loss.
func (c *checker) checkOldList(o *Operation, past *changeLog, aware map[int]int64) {
	var items []Object
	for i, p := range o.Pages {
		if p.Code != 200 {
			return
		}
		if at, known := aware[o.Server]; known && p.Call > at {
			c.violate(RuleLoss, []string{o.String()}, "page %d shows a state of before writes were lost, by a server that had shown what came after", i+1)
		}
		items = append(items, p.Items...)
		want := past.state(p.Revision, o.Select)
		if len(items) > len(want) || !p.More && len(items) != len(want) || !slices.Equal(items, want[:len(items)]) {
			c.violate(RuleState, []string{o.String(), "was   " + describe(want)}, "a list up to page %d is not what was there at its revision %d", i+1, p.Revision)
		}
	}
}

// checkLeft requires that the remaining state is one of the earlier history.
func (c *checker) checkLeft(l *Loss) {
	before, left := l.log(), l.saved()
	at := max(l.Start, l.Saved)
	for i := before.position(at); ; i++ {
		if slices.Equal(before.state(at, ""), left) {
			return
		}
		if i == len(before.changes) {
			break
		}
		at = before.changes[i].Object.Revision
	}
	c.violate(RuleLoss, []string{describe(l.State)}, "what is left was not the state at any revision from %d on", max(l.Start, l.Saved))
}
