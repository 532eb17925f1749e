package sqlstore

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/rowlock/rowlock/resources"
)

// jumpingClock can be set. What passes since a time does not depend on that, as long as the time is from before it was
// set.
type jumpingClock struct {
	*clocktesting.FakeClock
	first time.Duration // how far it is ahead at first
	ahead atomic.Int64
}

func (c *jumpingClock) Now() time.Time { return c.FakeClock.Now().Add(time.Duration(c.ahead.Load())) }

func (c *jumpingClock) Since(t time.Time) time.Duration { return c.FakeClock.Since(t.Add(-c.first)) }

// The object history is as old as the time for which stores were open since, whatever the clock is set to, before a
// restart or after it.
func TestObjectHistoryOutlivesJumps(t *testing.T) {
	onBoth(t, func(t *testing.T, h *eitherHarness) {
		const long = 365 * 24 * time.Hour
		options := h.options()
		options.ObjectHistory = ObjectHistory{Age: time.Hour, Revisions: 20}
		s := h.store
		var clock *jumpingClock
		start := func(ahead time.Duration) {
			h.close(t)
			clock = &jumpingClock{FakeClock: h.clock, first: ahead}
			clock.ahead.Store(int64(ahead))
			options.Clock = clock
			s = h.openWith(t, options)
		}
		set := func(ahead time.Duration) { clock.ahead.Store(int64(ahead)) }
		made := 0
		write := func() {
			t.Helper()
			made++
			mustCommit(t, s, object(t, "widgets", "shop", fmt.Sprint("w", made), fmt.Sprint("u", made), `"size":1`))
		}
		wantKept := func(when string, want int) {
			t.Helper()
			s.recordNow(t)
			found, _, err := s.ObjectHistory(t.Context(), resources.RevisionQuery{})
			if err != nil || len(found) != want {
				t.Errorf("%s: %d writes are kept, %v; want %d", when, len(found), err, want)
			}
		}
		start(0)
		write()
		wantKept("new", 1)
		set(long)
		wantKept("the clock was set forward", 1)
		start(2 * long)
		wantKept("the clock was set forward during a restart", 1)
		start(-50 * long)
		write()
		wantKept("a start in the past", 2)
		set(0)
		wantKept("the clock was set right", 2)
		start(-50 * long)
		write()
		wantKept("another start in the past", 3)
		h.close(t)
		h.clock.Step(long)
		start(0)
		wantKept("the clock was set right, a year later, and the server was started again", 3)
		h.clock.Step(40 * time.Minute)
		write()
		s.recordNow(t)
		start(0)
		start(0) // the ages are noted also if nothing happened
		h.clock.Step(30 * time.Minute)
		wantKept("the first writes are an hour old", 1)
		h.clock.Step(40 * time.Minute)
		wantKept("all are old", 0)
	})
}

// A server that is always killed removes what is old, and nothing earlier. A command, which knows nothing of the object
// history, leaves the ages as they are.
func TestObjectHistoryAgesAcrossKills(t *testing.T) {
	onBoth(t, func(t *testing.T, h *eitherHarness) {
		options := h.options()
		options.ObjectHistory = ObjectHistory{Age: time.Hour}
		const lives, lived = 16, 10 * time.Minute
		for i := range lives {
			h.kill(t)
			if i%2 == 1 {
				h.open(t) // a command
				h.close(t)
			}
			s := h.openWith(t, options)
			mustCommit(t, s, object(t, "widgets", "shop", fmt.Sprint("w", i), fmt.Sprint("u", i), `"size":1`))
			s.recordNow(t)
			h.clock.Step(lived)
			if _, err := s.janitor.note(); err != nil {
				t.Fatal(err)
			}
			s.recordNow(t)
			s.wantRevisions(t, min(i+1, 5)) // 10 to 50 minutes old
		}
		if n := len(h.store.recorder.ages.marks); n > 2*recordAges+2 {
			t.Errorf("%d marks", n)
		}
	})
}

// The number of noted ages is bounded by the needs of the object history, however often a server starts.
func TestAgesOfObjectHistoryAreFew(t *testing.T) {
	fake := clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))
	var noted string
	for i := range int64(1000) {
		s := &Store{clock: fake, opened: fake.Now(), position: position{revision: i}}
		r := &recorder{store: s, options: ObjectHistory{Age: 100 * time.Minute}}
		r.restoreAges(noted)
		fake.Step(time.Minute)
		r.ages.old(s.now().Add(-r.options.Age))
		var err error
		if noted, err = r.ages.noted(0, s.now()); err != nil {
			t.Fatal(err)
		}
		if len(r.ages.marks) > 2*recordAges+2 {
			t.Fatalf("%d marks: %s", len(r.ages.marks), noted)
		}
		if old := r.ages.old(s.now().Add(-r.options.Age)); old > max(0, i-99) || old < i-99-100/recordAges-1 {
			t.Fatalf("of the revisions that were made a minute after another, of %d those up to %d are old", i, old)
		}
	}
}
