package storetest

import (
	"time"

	"github.com/rowlock/rowlock/resources"
)

var lifetimeTests = map[string]func(*suite){
	"Lifetime":             testLifetime,
	"LifetimeOverRestart":  testLifetimeOverRestart,
	"UpdateGivesNewLife":   testUpdateGivesNewLife,
	"UpdateMakesImmortal":  testUpdateMakesImmortal,
	"LifetimesEndTogether": testLifetimesEndTogether,
}

const lifetime = time.Hour

func mortal(w resources.Write) resources.Write {
	w.TTL = lifetime
	return w
}

// TTL is how long the object lives from now on; the store then deletes it as if by Delete.
func testLifetime(s *suite) {
	o := s.commitOne(mortal(create(pod("ns", "a"), "x")))
	stays := s.commitOne(create(pod("ns", "b"), "x"))
	w := s.watch(resources.WatchOptions{Resource: "pods", After: stays.Revision})
	s.h.Advance(lifetime / 2)
	s.quiet(w)
	s.h.Advance(lifetime)
	gone := o.At(stays.Revision + 1)
	s.want("events", []string{"delete " + s.describe(gone) + " from " + s.describe(o)}, s.events(w, 1))
	s.want("pods", []string{s.describe(stays)}, s.contents(s.snapshot("pods", current)))
}

// A lifetime also passes while the server is down.
func testLifetimeOverRestart(s *suite) {
	o := s.commitOne(mortal(create(pod("ns", "a"), "x")))
	s.store = s.h.Restart(s.T)
	w := s.watch(resources.WatchOptions{Resource: "pods", After: o.Revision})
	s.h.Advance(2 * lifetime)
	s.want("events", []string{"delete " + s.describe(o.At(o.Revision+1)) + " from " + s.describe(o)}, s.events(w, 1))
}

// An update with a TTL begins a new lifetime.
func testUpdateGivesNewLife(s *suite) {
	o := s.commitOne(mortal(create(pod("ns", "a"), "x")))
	witness := s.commitOne(mortal(create(pod("ns", "witness"), "x")))
	s.h.Advance(lifetime / 2)
	o = s.commitOne(mortal(update(o, "y")))
	w := s.watch(resources.WatchOptions{Resource: "pods", After: o.Revision})
	s.h.Advance(lifetime * 3 / 4)
	s.want("events", []string{"delete " + s.describe(witness.At(o.Revision+1)) + " from " + s.describe(witness)}, s.events(w, 1))
	s.want("pods", []string{s.describe(o)}, s.contents(s.snapshot("pods", current)))
	s.h.Advance(lifetime)
	s.want("events", []string{"delete " + s.describe(o.At(o.Revision+2)) + " from " + s.describe(o)}, s.events(w, 1))
}

// TTL, when positive: an update without one ends the lifetime that an earlier write set.
func testUpdateMakesImmortal(s *suite) {
	o := s.commitOne(mortal(create(pod("ns", "a"), "x")))
	witness := s.commitOne(mortal(create(pod("ns", "witness"), "x")))
	o = s.commitOne(update(o, "y"))
	w := s.watch(resources.WatchOptions{Resource: "pods", After: o.Revision})
	s.h.Advance(2 * lifetime)
	s.want("events", []string{"delete " + s.describe(witness.At(o.Revision+1)) + " from " + s.describe(witness)}, s.events(w, 1))
	s.want("pods", []string{s.describe(o)}, s.contents(s.snapshot("pods", current)))
}

// Many lifetimes that end at once all end.
func testLifetimesEndTogether(s *suite) {
	const objects = 600
	writes := make([]resources.Write, objects)
	for i := range writes {
		writes[i] = mortal(create(pod("ns", string(rune('a'+i%26))+time.Duration(i).String()), "x"))
	}
	made := s.commit(writes...)
	w := s.watch(resources.WatchOptions{Resource: "pods", After: made[objects-1].Revision})
	s.h.Advance(2 * lifetime)
	s.want("deletions", objects, len(s.events(w, objects)))
	s.want("pods", []string{}, s.contents(s.snapshot("pods", current)))
}
