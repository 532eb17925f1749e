package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/rowlock/rowlock/resources"
)

var modelTests = map[string]func(*suite){
	"Model1": func(s *suite) { testModel(s, 1) },
	"Model2": func(s *suite) { testModel(s, 2) },
	"Model3": func(s *suite) { testModel(s, 3) },
	"Model4": func(s *suite) { testModel(s, 4) },
}

// model is the plainest implementation of a store's behaviour: it keeps everything.
type model struct {
	start  int64
	states []map[resources.Key]string // after each revision from start, as text
	at     map[resources.Key]int64    // revisions of the present objects
	events []modelEvent
}

type modelEvent struct {
	key  resources.Key
	text string
}

// modelWatch is a watch, and the position that the model expects of it.
type modelWatch struct {
	resources.Watch
	opts   resources.WatchOptions
	cursor int64
}

// The store behaves like the model for any operations: random writes in transactions of several, reads of past and
// present, watches that are read at random, restarts.
func testModel(s *suite, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 3))
	m := &model{start: s.snapshot("pods", current).Revision(), states: []map[resources.Key]string{{}},
		at: map[resources.Key]int64{}}
	var watches []*modelWatch
	for range 600 {
		switch n := random.IntN(100); {
		case n < 50:
			m.write(s, random)
		case n < 65:
			m.checkSnapshot(s, random)
		case n < 70:
			watches = append(watches, m.openWatch(s, random))
		case n < 97:
			if len(watches) > 0 {
				m.checkWatch(s, watches[random.IntN(len(watches))], 1+random.IntN(20))
			}
		case n < 98:
			s.store = s.h.Restart(s.T)
			for _, w := range watches { // they continue at their positions
				w.opts.After = w.cursor
				w.Watch = s.watch(w.opts)
			}
		default:
			s.h.Advance(1)
		}
		if s.Failed() {
			return
		}
	}
	for _, w := range watches {
		for w.cursor < m.revision() && !s.Failed() {
			m.checkWatch(s, w, 50)
		}
	}
}

func (m *model) revision() int64 { return m.start + int64(len(m.events)) }

func (m *model) write(s *suite, random *rand.Rand) {
	var writes []resources.Write
	used := map[resources.Key]bool{}
	for range 1 + random.IntN(4) {
		key := pod(fmt.Sprint("ns", random.IntN(3)), fmt.Sprint(random.IntN(6)))
		if random.IntN(4) == 0 {
			key = node(fmt.Sprint(random.IntN(6)))
		}
		if used[key] {
			continue
		}
		used[key] = true
		o := s.snapshot(key.Resource, any_).Get(key.Namespace, key.Name)
		state := fmt.Sprint(random.IntN(1000))
		switch {
		case o == nil:
			writes = append(writes, create(key, state))
		case random.IntN(3) == 0:
			writes = append(writes, remove(o))
		default:
			writes = append(writes, update(o, state))
		}
	}
	writes, vain := m.expect(random, writes, used)
	if len(vain) > 0 {
		_, err := s.store.Commit(s.ctx, writes...)
		m.checkVain(s, vain, err)
		return
	}
	for i, o := range s.commit(writes...) {
		if writes[i].Op == resources.Expect {
			s.want("what is expected", m.states[len(m.states)-1][o.Key], s.describe(o))
			continue
		}
		s.want("revision", m.revision()+1, o.Revision)
		before := m.states[len(m.states)-1]
		after := map[resources.Key]string{}
		for k, v := range before {
			after[k] = v
		}
		text := map[resources.Op]string{resources.Create: "create ", resources.Update: "update ", resources.Delete: "delete "}[writes[i].Op] + s.describe(o)
		if old, ok := before[o.Key]; ok {
			text += " from " + old
		}
		m.at[o.Key], after[o.Key] = o.Revision, s.describe(o)
		if writes[i].Op == resources.Delete {
			delete(m.at, o.Key)
			delete(after, o.Key)
		}
		m.states = append(m.states, after)
		m.events = append(m.events, modelEvent{o.Key, text})
	}
}

// expect adds random expectations to some writes, and returns the keys of those that fail.
func (m *model) expect(random *rand.Rand, writes []resources.Write, used map[resources.Key]bool) (_ []resources.Write, vain []resources.Key) {
	for range random.IntN(3) {
		key := node(fmt.Sprint(random.IntN(6)))
		if used[key] {
			continue
		}
		w := resources.Write{Op: resources.Expect, Key: key, From: m.at[key]}
		if random.IntN(5) == 0 {
			w.From = m.start + random.Int64N(m.revision()-m.start+2)
		}
		if now, ok := m.at[key]; !ok || now != w.From {
			vain = append(vain, key)
		}
		writes = slices.Insert(writes, random.IntN(len(writes)+1), w)
	}
	return writes, vain
}

// checkVain checks that a commit failed for one of the failing expectations, and changed nothing.
func (m *model) checkVain(s *suite, vain []resources.Key, err error) {
	var unexpected *resources.ExpectationError
	if !errors.As(err, &unexpected) || !slices.Contains(vain, unexpected.Key) {
		s.Fatalf("got error %v, but %v is not as expected", err, vain)
	}
	want, ok := m.states[len(m.states)-1][unexpected.Key]
	if !ok {
		want = "none"
	}
	s.want("what is there", want, s.describe(unexpected.Current))
	s.want("revision", m.revision(), s.snapshot("pods", any_).Revision())
}

func (m *model) checkSnapshot(s *suite, random *rand.Rand) {
	resource := []string{"pods", "nodes"}[random.IntN(2)]
	revision, at := m.revision(), any_
	if random.IntN(3) > 0 {
		revision = m.start + random.Int64N(m.revision()-m.start+1)
		at = exactly(revision)
	}
	want := []string{}
	byPath := map[string]string{}
	paths := []string{}
	for key, text := range m.states[revision-m.start] {
		if key.Resource == resource {
			byPath[key.Path()] = text
			paths = append(paths, key.Path())
		}
	}
	sort.Strings(paths)
	for _, p := range paths {
		want = append(want, byPath[p])
	}
	snap := s.snapshot(resource, at)
	s.want("revision", revision, snap.Revision())
	s.want(fmt.Sprintf("%s at %d", resource, revision), want, s.contents(snap))
}

func (m *model) openWatch(s *suite, random *rand.Rand) *modelWatch {
	opts := resources.WatchOptions{Resource: []string{"pods", "nodes"}[random.IntN(2)],
		After: m.start + random.Int64N(m.revision()-m.start+1)}
	if opts.Resource == "pods" && random.IntN(2) == 0 {
		opts.Namespace = fmt.Sprint("ns", random.IntN(3))
	}
	if random.IntN(3) == 0 {
		opts.Name = fmt.Sprint(random.IntN(6))
	}
	return &modelWatch{Watch: s.watch(opts), opts: opts, cursor: opts.After}
}

// checkWatch reads a watch and compares the events with the model's.
func (m *model) checkWatch(s *suite, w *modelWatch, max int) {
	if m.readWatch(s, w, max) == 0 && w.cursor != m.revision() {
		s.Fatalf("the cursor says %d, nothing is left and the store is at %d", w.cursor, m.revision())
	}
}

// readWatch reads a watch once, compares the events, and returns their number.
func (m *model) readWatch(s *suite, w *modelWatch, max int) int {
	events, cursor, err := w.Next(s.ctx, max)
	if err != nil {
		s.Fatalf("next: %v", err)
	}
	got := []string{}
	for _, e := range events {
		got = append(got, s.describeEvent(e))
	}
	want := []string{}
	for r := w.cursor + 1; r <= cursor; r++ {
		e := m.events[r-m.start-1]
		if e.key.Resource == w.opts.Resource && (w.opts.Namespace == "" || w.opts.Namespace == e.key.Namespace) &&
			(w.opts.Name == "" || w.opts.Name == e.key.Name) {
			want = append(want, e.text)
		}
	}
	s.want(fmt.Sprintf("events of %+v from %d to %d", w.opts, w.cursor, cursor), want, got)
	w.cursor = cursor
	return len(events)
}
