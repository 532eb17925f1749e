package history

import "slices"

// Clients that write while writes are lost get some answers about writes that are lost, and others about writes that are not. The revisions tell which:
// all that were given after the loss are above all that were given before. Each of these clients has an object of its own, and writes it again and again
// until a write was acknowledged that it requested after the loss.

// withFlight is the history with what the writes in flight show: which revisions were told before the loss, and which writes may still happen.
func (h *History) withFlight() *History {
	if h.Loss == nil || len(h.Loss.Flight) == 0 {
		return h
	}
	whole, loss := *h, *h.Loss
	whole.Loss = &loss
	loss.Told, _ = h.aroundLoss()
	whole.Watches = slices.Clone(h.Watches)
	for i := range whole.Watches {
		whole.Watches[i].beginAt(h.Start, loss.Told)
	}
	whole.Operations = slices.Clone(h.Operations)
	for _, o := range loss.Flight {
		if o.unknown() && !slices.ContainsFunc(loss.State, func(left Object) bool { return left.Value == o.Value }) {
			whole.Operations = append(whole.Operations, o)
		}
	}
	return &whole
}

// beginAt cuts off what a watch has had between the loss and the start of the history. Which of the states in between there were is not known.
func (w *Watch) beginAt(start, told int64) {
	at := w.At
	if w.Initial {
		mark := slices.IndexFunc(w.Events, func(e Event) bool { return e.InitialEnd })
		if mark < 0 {
			return
		}
		at = w.Events[mark].Object.Revision
	} else if w.Match != Exact {
		return
	}
	if at <= told || at >= start {
		return
	}
	w.Match, w.Initial, w.At = Exact, false, start
	w.Events = slices.DeleteFunc(slices.Clone(w.Events), func(e Event) bool { return e.Object.Revision <= start })
}

// aroundLoss returns the last revision that was told before the loss, and the first after it. Those of answers from the time between are on the side of
// the largest gap to which they belong: after a loss, a store goes on far above all that it has given.
func (h *History) aroundLoss() (told, first int64) {
	l := h.Loss
	all := []int64{l.Told}
	first = h.Start
	for i := range l.Flight {
		o := &l.Flight[i]
		if left := l.left(o.Name); left != nil {
			first = min(first, left.Revision)
		}
		if !o.done() || o.Object == nil {
			continue
		}
		if all = append(all, o.Object.Revision); o.Call > l.Over {
			first = min(first, o.Object.Revision)
		}
	}
	for i := range h.Watches {
		for _, e := range h.Watches[i].Events {
			all = append(all, e.Object.Revision)
		}
	}
	all = slices.DeleteFunc(append(all, first), func(r int64) bool { return r < l.Told || r > first })
	slices.Sort(all)
	told = l.Told
	for i, widest := 1, int64(0); i < len(all); i++ {
		if gap := all[i] - all[i-1]; gap > widest {
			widest, told, first = gap, all[i-1], all[i]
		}
	}
	return told, first
}

// left is an object of the remaining state, or nil.
func (l *Loss) left(name string) *Object {
	if i := slices.IndexFunc(l.State, func(o Object) bool { return o.Name == name }); i >= 0 {
		return &l.State[i]
	}
	return nil
}

// saved is the remaining state without the objects of the writes in flight, which did not exist when it was saved.
func (l *Loss) saved() []Object {
	return slices.DeleteFunc(slices.Clone(l.State), func(left Object) bool {
		return slices.ContainsFunc(l.Flight, func(o Operation) bool { return o.Name == left.Name })
	})
}

// checkFlight requires that writes which were acknowledged after the loss are there, that the objects were written by their clients, and that none was
// left from before. Whether revisions grow, checkRevisions checks.
func (c *checker) checkFlight(l *Loss) {
	_, first := c.history.aroundLoss()
	for i := range l.Flight {
		o, left := &l.Flight[i], l.left(l.Flight[i].Name)
		if o.done() && o.Object != nil && o.Object.Revision >= first && (left == nil || left.Revision < o.Object.Revision) {
			c.violate(RuleDurable, []string{o.String(), describe(l.State)}, "a write that was acknowledged after others were lost is not there")
		}
		if o.done() && o.Object != nil && left != nil && left.Revision == o.Object.Revision && *left != *o.Object {
			c.violate(RuleUniqueRV, []string{o.String(), left.String()}, "two changes at revision %d", left.Revision)
		}
	}
	for i := range l.State {
		left := &l.State[i]
		of := func(o Operation) bool { return o.Name == left.Name }
		if slices.ContainsFunc(l.Flight, of) && !slices.ContainsFunc(l.Flight, func(o Operation) bool { return of(o) && o.Value == left.Value && (o.done() || o.unknown()) }) {
			c.violate(RuleHonest, []string{left.String()}, "nobody wrote what is left")
		}
	}
}
