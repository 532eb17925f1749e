package history

// stream compares the events of one watch with the log.
type stream struct {
	*checker
	watch    *Watch
	position int64 // all events up to this revision were delivered
	last     int64 // the revision of the last event
	next     int   // the index in the log of the change after position
	seen     map[int64]bool
	events   []Event // those before the present one
}

// checkWatches requires etcd's guarantees for every watch (https://etcd.io/docs/latest/learning/api_guarantees/#watch-apis): it is ordered, unique,
// reliable, atomic, resumable, bookmarkable. A resumed watch is another one, from the revision at which the first has ended: it has to have the later
// events.
func (c *checker) checkWatches() {
	for i := range c.history.Watches {
		w := &c.history.Watches[i]
		if c.old(w) {
			continue // see checkLoss
		}
		s := &stream{checker: c, watch: w, seen: map[int64]bool{}}
		rest, ok := s.begin()
		if !ok {
			s.refusedState()
			continue
		}
		s.next = c.log.position(s.position)
		s.last = s.position
		for _, e := range rest {
			s.step(e)
			s.events = append(s.events, e)
		}
		s.end()
		s.refused()
	}
}

// rule names the guarantee that a gap breaks: at the very beginning, that a watch from a revision has all later events.
func (s *stream) rule() string {
	if len(s.seen) == 0 && s.watch.Match == Exact {
		return RuleResumable
	}
	return RuleReliable
}

func (s *stream) step(e Event) {
	r := e.Object.Revision
	if e.Type == Bookmark {
		s.bookmark(e)
		return
	}
	switch {
	case s.seen[r]:
		s.violate(RuleUnique, s.evidence(e), "the event of revision %d comes again", r)
		return
	case r <= s.last:
		s.violate(RuleOrdered, s.evidence(e), "the event of revision %d comes after %d", r, s.last)
		return
	case r <= s.position:
		s.violate(RuleBookmarkable, s.evidence(e), "the event of revision %d comes after a bookmark of %d", r, s.position)
	}
	s.skipTo(r, e)
	if change, ok := s.at(r); !ok {
		s.violate(RuleHonest, s.evidence(e), "there is no event of revision %d for this watch", r)
	} else if change.Type != e.Type || change.Object != e.Object {
		s.violate(RuleAtomic, append(s.evidence(e), "it should be "+change.String()), "the event of revision %d is not what has happened", r)
	}
	s.seen[r] = true
	s.last, s.position = r, max(r, s.position)
	s.next = s.log.position(s.position)
}

// at is the event that this watch has to have at a revision.
func (s *stream) at(revision int64) (Event, bool) {
	i := s.log.position(revision - 1)
	if i == len(s.log.changes) || s.log.changes[i].Object.Revision != revision {
		return Event{}, false
	}
	return s.log.changes[i].seenBy(s.watch.Select)
}

// skipTo requires that this watch has no events between those delivered and a revision.
func (s *stream) skipTo(revision int64, at Event) {
	for ; s.next < len(s.log.changes) && s.log.changes[s.next].Object.Revision < revision; s.next++ {
		if missed, ok := s.log.changes[s.next].seenBy(s.watch.Select); ok && !s.seen[missed.Object.Revision] {
			s.violate(s.rule(), append(s.evidence(at), "missed: "+missed.String()), "the event of revision %d is left out", missed.Object.Revision)
		}
	}
}

func (s *stream) bookmark(e Event) {
	r := e.Object.Revision
	if r < s.position {
		s.violate(RuleBookmarkable, s.evidence(e), "a bookmark of revision %d after %d", r, s.position)
		return
	}
	for ; s.next < len(s.log.changes) && s.log.changes[s.next].Object.Revision <= r; s.next++ {
		if missed, ok := s.log.changes[s.next].seenBy(s.watch.Select); ok {
			s.violate(RuleBookmarkable, append(s.evidence(e), "missed: "+missed.String()), "a bookmark of revision %d before the event of %d", r,
				missed.Object.Revision)
		}
	}
	s.position = r
}

// end requires that a watch that was kept open has reached the end.
func (s *stream) end() {
	if s.watch.Complete && s.position < s.history.End {
		s.violate(RuleComplete, s.evidence(Event{Type: "(end)"}), "a watch ends at revision %d, the history at %d", s.position, s.history.End)
	}
}

// evidence is the watch, the last events, and the wrong one.
func (s *stream) evidence(e Event) []string {
	lines := []string{s.watch.String()}
	for _, before := range s.events[max(0, len(s.events)-4):] {
		lines = append(lines, before.String())
	}
	return append(lines, e.String())
}
