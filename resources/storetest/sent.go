package storetest

import (
	"strings"

	"github.com/rowlock/rowlock/resources"
)

// An object whose data ends with a space is stored unchanged, and shown in another form: by every read, over a restart, and by
// watches of changes in memory or in the database.
func testStoredIsNotShown(s *suite) {
	const shown, stored = `,"raw":{"a":"\u0026"}}`, `,"raw":{"a": "&"}} `
	w := create(pod("ns", "a"), "x")
	w.Draft.Data = append(w.Draft.Data[:len(w.Draft.Data)-1:len(w.Draft.Data)-1], stored...)
	made := s.commitOne(w)
	next := update(made, "y")
	next.Draft.Data = append(next.Draft.Data[:len(next.Draft.Data)-1:len(next.Draft.Data)-1], stored...)
	changed := s.commitOne(next)
	check := func(what string, o *resources.Object, kept bool) {
		s.Helper()
		if data := string(o.Data); !strings.HasSuffix(data, shown) {
			s.Errorf("%s shows %s", what, data)
		}
		if data := string(o.Stored()); kept && !strings.HasSuffix(data, stored) {
			s.Errorf("%s has %s", what, data)
		}
	}
	gone := s.commitOne(create(pod("ns", "b"), "x"))
	s.commitOne(remove(gone))
	for range 2 {
		check("the present", s.snapshot("pods", current).Get("ns", "a"), true)
		check("the past", s.snapshot("pods", exactly(made.Revision)).Get("ns", "a"), true)
		watch := s.watch(resources.WatchOptions{Resource: "pods", Name: "a", Namespace: "ns", After: made.Revision - 1})
		for seen := 0; seen < 2; {
			events, _, err := watch.Next(s.ctx, 10)
			if err != nil {
				s.Fatal(err)
			}
			for _, e := range events {
				check("an event", e.Object, true)
				if e.Prev != nil {
					check("the state before", e.PrevAt(), false)
				}
				seen++
			}
			if len(events) == 0 {
				s.Fatal("no events")
			}
		}
		s.store = s.h.Restart(s.T)
	}
	s.want("data", string(changed.Data), string(s.snapshot("pods", current).Get("ns", "a").Data))
	removed := s.commitOne(remove(changed))
	check("what is gone", removed, false)
}
