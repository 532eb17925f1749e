package storetest

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"

	"github.com/rowlock/rowlock/resources"
)

var pastTests = map[string]func(*suite){
	"ExactEveryRevision":    testExactEveryRevision,
	"ExactWhileWritersRun":  testExactWhileWritersRun,
	"PaginationUnderChurn":  testPaginationUnderChurn,
	"ExactOfTheNewest":      testExactOfTheNewest,
	"ExactOfAnUnborn":       testExactOfAnUnborn,
	"ExactAfterRestart":     testExactAfterRestart,
	"PastObjectsAreCorrect": testPastObjectsAreCorrect,
}

// scribble does n random writes of a few pods and returns the contents after each revision, the start included.
func (s *suite) scribble(seed uint64, n int) map[int64][]string {
	random := rand.New(rand.NewPCG(seed, 1))
	states := map[int64][]string{}
	note := func() {
		snap := s.snapshot("pods", current)
		states[snap.Revision()] = s.contents(snap)
	}
	note()
	for i := range n {
		key := pod("ns", strconv.Itoa(random.IntN(12)))
		o, err := s.store.Get(s.ctx, key, current)
		switch {
		case err != nil:
			s.commitOne(create(key, fmt.Sprint("made", i)))
		case random.IntN(3) == 0:
			s.commitOne(remove(o))
		default:
			s.commitOne(update(o, fmt.Sprint("changed", i)))
		}
		note()
	}
	return states
}

// Exact reads the state as it was at a revision.
func testExactEveryRevision(s *suite) {
	states := s.scribble(1, 200)
	s.wantStates(states)
	s.wantStates(states) // again: the state that the store may have kept from the first time is right, too
}

func (s *suite) wantStates(states map[int64][]string) {
	s.Helper()
	for revision, want := range states {
		snap := s.snapshot("pods", exactly(revision))
		s.want("revision", revision, snap.Revision())
		s.want(fmt.Sprintf("pods at %d", revision), want, s.contents(snap))
		s.want("count", len(want), snap.Count("", ""))
	}
}

// Exact reads the state as it was, also when the objects have left memory and the log is in the database.
func testExactAfterRestart(s *suite) {
	states := s.scribble(2, 100)
	s.store = s.h.Restart(s.T)
	s.wantStates(states)
	for revision, state := range s.scribble(3, 100) {
		states[revision] = state
	}
	s.wantStates(states)
}

// A snapshot is consistent at its revision while writers run: reading it again later gives the same.
func testExactWhileWritersRun(s *suite) {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			key := pod("ns", strconv.Itoa(i))
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				_, err := resources.GuaranteedUpdate(s.ctx, s.store, key, func(o *resources.Object) ([]resources.Write, error) {
					switch {
					case o == nil:
						return []resources.Write{create(key, "made")}, nil
					case n%7 == 0:
						return []resources.Write{remove(o)}, nil
					}
					return []resources.Write{update(o, strconv.Itoa(n))}, nil
				})
				if err != nil {
					s.Errorf("writer: %v", err)
					return
				}
			}
		})
	}
	seen := map[int64][]string{}
	for range 200 {
		snap := s.snapshot("pods", any_)
		seen[snap.Revision()] = s.contents(snap)
		for revision, want := range seen { // one of them
			s.want(fmt.Sprintf("pods at %d", revision), want, s.contents(s.snapshot("pods", exactly(revision))))
			break
		}
	}
	close(stop)
	wg.Wait()
	s.wantStates(seen)
}

// Exact of the newest revision has nothing later, also when later revisions come meanwhile.
func testExactOfTheNewest(s *suite) {
	o := s.commitOne(create(pod("ns", "a"), "made"))
	done := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			runtime.Gosched()
			now, err := s.store.Snapshot(s.ctx, "pods", any_)
			if err != nil {
				s.Errorf("snapshot: %v", err)
				return
			}
			newest := now.Revision()
			snap, err := s.store.Snapshot(s.ctx, "pods", exactly(newest))
			if err != nil {
				s.Errorf("snapshot at %d: %v", newest, err)
				return
			}
			if o := snap.Get("ns", "a"); o == nil || o.Revision > newest {
				s.Errorf("the list at %d has %v", newest, o)
				return
			}
		}
	})
	for n := range 300 {
		o = s.commitOne(update(o, strconv.Itoa(n)))
	}
	close(done)
	reader.Wait()
}

// Pages of one list are pages of one state: resourceVersion remains constant across the requests.
func testPaginationUnderChurn(s *suite) {
	const objects, limit = 200, 7
	for i := range objects {
		s.commitOne(create(pod("ns", fmt.Sprintf("%03d", i)), "x"))
	}
	first := s.snapshot("pods", current)
	want := s.contents(first)
	got := []string{}
	after := ""
	for page := 0; ; page++ {
		snap := s.snapshot("pods", exactly(first.Revision()))
		s.want("remaining", objects-len(got), snap.Count("", after))
		n := 0
		snap.Ascend("", after, func(o *resources.Object) bool {
			got = append(got, s.describe(o))
			after = o.Path()
			n++
			return n < limit
		})
		if n < limit {
			break
		}
		now := s.snapshot("pods", current)
		s.commitOne(remove(now.Get("ns", fmt.Sprintf("%03d", page))))
		s.commitOne(update(now.Get("ns", fmt.Sprintf("%03d", objects-1-page)), "changed"))
		s.commitOne(create(pod("ns", fmt.Sprintf("%03d-new", page*2)), "new"))
	}
	s.want("pages", want, got)
}

// An object that did not exist at a revision is not there.
func testExactOfAnUnborn(s *suite) {
	n := s.commitOne(create(node("n"), "x"))
	p := s.commitOne(create(pod("ns", "a"), "x"))
	s.want("pods before the first", []string{}, s.contents(s.snapshot("pods", exactly(n.Revision))))
	s.want("pods at the first", []string{s.describe(p)}, s.contents(s.snapshot("pods", exactly(p.Revision))))
}

// A past object has the revision, labels and fields that it had.
func testPastObjectsAreCorrect(s *suite) {
	a := s.commitOne(create(pod("ns", "a"), "one"))
	b := s.commitOne(update(a, "two"))
	c := s.commitOne(remove(b))
	for range 2 {
		s.want("at the create", s.describe(a), s.describe(s.snapshot("pods", exactly(a.Revision)).Get("ns", "a")))
		s.want("at the update", s.describe(b), s.describe(s.snapshot("pods", exactly(b.Revision)).Get("ns", "a")))
		s.want("at the delete", "none", s.describe(s.snapshot("pods", exactly(c.Revision)).Get("ns", "a")))
		s.store = s.h.Restart(s.T)
	}
}
