package history

import "slices"

// begin consumes the state with which a watch begins, if it does, sets the position, and returns the later events; false: the events prove nothing
// further.
func (s *stream) begin() (rest []Event, ok bool) {
	w := s.watch
	switch {
	case len(w.Events) == 0 && w.Code != 200 && (w.Code != 410 || w.Match != Exact):
		return nil, false // a fault
	case w.Match == Exact && !w.Initial:
		s.position = w.At
		return w.Events, true
	case w.Initial:
		return s.beginMarked()
	default:
		return s.beginUnmarked()
	}
}

// beginMarked consumes a state whose end is marked by a bookmark (KEP-3157). There may be changes between its ADDED events: together they make the
// state at the bookmark.
func (s *stream) beginMarked() (rest []Event, ok bool) {
	w := s.watch
	end := slices.IndexFunc(w.Events, func(e Event) bool { return e.InitialEnd })
	if end < 0 {
		if w.Complete {
			s.events = w.Events
			s.violate(RuleComplete, s.evidence(Event{Type: "(end)"}), "the end of the initial events is not marked")
		}
		return nil, false
	}
	mark := w.Events[end]
	got := map[string]Object{}
	for _, e := range w.Events[:end] {
		switch e.Type {
		case Deleted:
			delete(got, e.Object.Name)
		case Added, Modified:
			got[e.Object.Name] = e.Object
		}
	}
	shown := make([]Object, 0, len(got))
	for _, name := range s.log.names {
		if o, there := got[name]; there {
			shown = append(shown, o)
		}
	}
	want := s.log.state(mark.Object.Revision, w.Select)
	if !slices.Equal(shown, want) || len(shown) != len(got) {
		s.events = w.Events[:end]
		s.violate(RuleState, append(s.evidence(mark), "shown "+describe(shown), "was   "+describe(want)), "initial events are not the state at revision %d",
			mark.Object.Revision)
	}
	if w.Match == NotOlder && mark.Object.Revision < w.At {
		s.violate(RuleNotOlder, s.evidence(mark), "initial events are of revision %d, not older than %d was asked for", mark.Object.Revision, w.At)
	}
	s.position = mark.Object.Revision
	s.events = slices.Clone(w.Events[:end+1])
	return w.Events[end+1:], true
}

// beginUnmarked consumes a state without an end mark. Some revision has to fit: the ADDED events are its state, and the later events are the changes
// after it. If none fits, the one that fits longest shows the violation.
func (s *stream) beginUnmarked() (rest []Event, ok bool) {
	events := s.watch.Events
	if len(events) == 0 && !s.watch.Complete {
		return nil, false
	}
	at := s.history.Start
	if s.watch.Match == MostRecent {
		at = s.knownBefore(s.watch.Call)
	}
	begun, fits := int64(-1), -1
	first := s.log.position(at)
	for i := first - 1; i < len(s.log.changes); i++ {
		if i >= first {
			at = s.log.changes[i].Object.Revision
		}
		state := s.log.state(at, s.watch.Select)
		if len(state) > len(events) || !begins(events, state) {
			continue
		}
		if fit := len(state) + s.follow(events[len(state):], i+1, at); fit > fits {
			begun, fits = at, fit
		}
		if fits == len(events) {
			break
		}
	}
	if begun < 0 {
		s.events = events
		s.violate(RuleState, s.evidence(Event{Type: "(end)"}), "a watch from %s begins with %d events that are no state and what came after it",
			matchName(s.watch.Match), len(events))
		return nil, false
	}
	n := len(s.log.state(begun, s.watch.Select))
	s.position, s.events = begun, slices.Clone(events[:n])
	return events[n:], true
}

// begins says whether the first events are the ADDED events of a state.
func begins(events []Event, state []Object) bool {
	for i, o := range state {
		if events[i].Type != Added || events[i].Object != o {
			return false
		}
	}
	return true
}

// follow counts the events that match the changes after a revision, one by one. next is the index of the first of these changes in the log.
func (s *stream) follow(events []Event, next int, at int64) int {
	for i, e := range events {
		want, found := Event{}, false
		for ; next < len(s.log.changes) && !found; next++ {
			want, found = s.log.changes[next].seenBy(s.watch.Select)
		}
		if e.Type == Bookmark {
			if e.Object.Revision < at || found && want.Object.Revision <= e.Object.Revision {
				return i
			}
			at = e.Object.Revision
			if found {
				next--
			}
			continue
		}
		if !found || want.Object != e.Object || want.Type != e.Type {
			return i
		}
		at = e.Object.Revision
	}
	return len(events)
}
