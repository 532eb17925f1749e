package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// simulation makes the history of clients of a store, step by step, from a seed: requests take effect between call and answer; some have no answer
// and take effect later or never. A bug makes it lie once, where the lie is sure to be visible.
type simulation struct {
	*rand.Rand
	bug     string
	fired   bool
	now     int64
	history History
	log     changeLog // its changes are in order
	uids    int
	// acknowledged is the last acknowledged revision of each object; known is that of all.
	acknowledged map[string]int64
	known        int64
	clients      []*client
	watchers     []*watcher
	late         []func()
	hidden       map[int64]bool  // changes hidden from all watches
	made         map[int64]int64 // when the change of a revision was made
	floor        int64           // changes up to it are pruned
}

// client is a client with or without a request in flight.
type client struct {
	id      int
	op      *Operation
	atCall  int64 // the known revision when it called
	acked   int64 // the acknowledged revision of the object when it called
	effect  bool
	list    int64 // the revision of the list
	from    int   // items of the list already shown
	unheard bool  // it will get no answer
}

// watcher is a watch that is open.
type watcher struct {
	Watch
	cursor  int64
	forever bool
}

const (
	simulatedNames   = 5
	simulatedClients = 6
)

var simulatedColors = []string{"red", "blue"}

// simulate makes a history of a number of steps.
func simulate(seed uint64, steps int, bug string) *simulation {
	return simulatePruned(seed, steps, bug, 0)
}

// simulatePruned makes a history of which changes are pruned that are older than a number of steps; 0: none is.
func simulatePruned(seed uint64, steps int, bug string, age int64) *simulation {
	s := &simulation{Rand: rand.New(rand.NewPCG(seed, 1)), bug: bug, acknowledged: map[string]int64{}, hidden: map[int64]bool{}, known: 100, made: map[int64]int64{}}
	s.history.Start, s.history.Age = 100, age
	s.log.index()
	for i := range simulatedClients {
		s.clients = append(s.clients, &client{id: i})
	}
	for i := range 5 {
		s.watch(Watch{Match: Exact, At: 100, Select: []string{"", "", "", "red", "blue"}[i]}, true)
	}
	for range steps {
		s.now++
		s.prune()
		if s.IntN(3) == 0 {
			s.read(s.watchers[s.IntN(len(s.watchers))])
			s.reopen()
		} else {
			s.step(s.clients[s.IntN(len(s.clients))])
		}
		if len(s.late) > 0 && s.IntN(20) == 0 {
			s.late[0]()
			s.late = s.late[1:]
		}
	}
	s.finish()
	return s
}

// is says whether the simulated store should lie in this way now, which it does once.
func (s *simulation) is(bug string) bool {
	if s.bug == bug && !s.fired && s.now > 200 {
		s.fired = true
		return true
	}
	return false
}

func (s *simulation) revision() int64 {
	if n := len(s.log.changes); n > 0 {
		return s.log.changes[n-1].Object.Revision
	}
	return s.history.Start
}

// commit adds a change.
func (s *simulation) commit(kind string, o Object) Object {
	o.Revision = s.revision() + 1 + int64(s.IntN(3)) // other clients write, too
	if s.bug == "rv given twice" && len(s.log.changes) > 0 && s.log.changes[len(s.log.changes)-1].Object.Name != o.Name && s.is("rv given twice") {
		o.Revision = s.revision()
	}
	s.log.changes = append(s.log.changes, change{Event: Event{Type: kind, Object: o}})
	s.log.index()
	s.made[o.Revision] = s.now
	return o
}

func (s *simulation) step(c *client) {
	switch {
	case c.op == nil:
		s.call(c)
	case !c.effect:
		c.effect = true
		if c.unheard {
			op, copied := *c.op, *c
			copied.op = &op
			effect := s.happen(&copied)
			if s.IntN(2) == 0 {
				s.late = append(s.late, effect)
			} else if s.IntN(2) == 0 {
				effect()
			}
			return
		}
		s.happen(c)()
	default:
		s.answer(c)
	}
}

func (s *simulation) call(c *client) {
	o := &Operation{Client: c.id, Call: s.now, Name: fmt.Sprintf("o%d", s.IntN(simulatedNames)), Value: fmt.Sprintf("v%d", s.now),
		Color: simulatedColors[s.IntN(2)], Server: s.IntN(2)}
	o.Kind = []string{Create, Create, Update, Update, Patch, Apply, Delete, Get, Get, Get, List, List, List}[s.IntN(13)]
	*c = client{id: c.id, op: o, atCall: s.known, acked: s.acknowledged[o.Name]}
	switch {
	case o.Kind == Get || o.Kind == List:
		o.Value, o.Color = "", ""
		o.Match = []string{MostRecent, MostRecent, Any, NotOlder, Exact}[s.IntN(5)]
		if o.Match == Exact && o.Kind == Get {
			o.Match = MostRecent
		}
		if o.Match == NotOlder || o.Match == Exact {
			o.At = s.known - int64(s.IntN(int(min(30, s.known-99))))
		}
		if o.Kind == List {
			o.Name, o.Limit = "", s.IntN(4)
			o.Select = []string{"", "", "red"}[s.IntN(3)]
		}
	default:
		c.unheard = s.IntN(12) == 0
		if object := s.log.object(o.Name, s.revision()); o.Kind == Update && s.IntN(2) == 0 && object != nil {
			o.IfRevision = object.Revision - int64(s.IntN(4)/3)
		}
	}
}

// answer gives the client its answer.
func (s *simulation) answer(c *client) {
	o := c.op
	if o.Kind == List {
		p := &o.Pages[len(o.Pages)-1]
		p.Return = s.now
		s.known = max(s.known, p.Revision)
		if p.More {
			c.effect = false
			return
		}
	}
	o.Return = s.now
	if o.done() && o.Object != nil && o.Kind != Delete {
		s.known = max(s.known, o.Object.Revision)
		if o.writes() {
			s.acknowledged[o.Name] = max(s.acknowledged[o.Name], o.Object.Revision)
		}
	}
	s.history.Operations = append(s.history.Operations, *o)
	c.op = nil
}

// finish answers everything, writes the last object, lets all watches reach the end, and watches everything once more.
func (s *simulation) finish() {
	for _, c := range s.clients {
		for c.op != nil {
			s.now++
			s.step(c)
		}
	}
	for _, late := range s.late {
		late()
	}
	s.bug = map[bool]string{true: s.bug}[s.fired || s.bug == "watch hangs"]
	last := &client{op: &Operation{Kind: Create, Name: "end", Value: "end", Color: "red", Call: s.now}}
	s.happen(last)()
	s.now++
	s.answer(last)
	s.history.End = s.revision()
	s.watch(Watch{Match: Exact, At: 100}, true)
	for _, w := range s.watchers {
		for s.now++; s.deliver(w); s.now++ {
		}
		if w.Code == 410 {
			s.history.Watches = append(s.history.Watches, w.Watch)
			s.watch(Watch{Match: MostRecent, Initial: true, Select: w.Select}, true)
			w = s.watchers[len(s.watchers)-1]
		}
		w.Events = append(w.Events, Event{Time: s.now, Type: Bookmark, Object: Object{Revision: w.cursor}})
		w.Code, w.Complete = 200, true
		s.history.Watches = append(s.history.Watches, w.Watch)
	}
}

// watch opens a watch.
func (s *simulation) watch(w Watch, forever bool) {
	w.Call, w.Code = s.now, 200
	o := &watcher{Watch: w, cursor: w.At, forever: forever}
	if w.Match != Exact {
		o.cursor = s.revision()
		if w.Match == Any {
			o.cursor = max(s.history.Start, o.cursor-5)
		}
		state := s.log.state(o.cursor, w.Select)
		if len(state) > 0 && s.is("initial event lost") {
			state = state[1:]
		}
		for _, object := range state {
			o.Events = append(o.Events, Event{Time: s.now, Type: Added, Object: object})
		}
		if w.Initial {
			o.Events = append(o.Events, Event{Time: s.now, Type: Bookmark, InitialEnd: true, Object: Object{Revision: o.cursor}})
		}
	}
	s.watchers = append(s.watchers, o)
}

// reopen ends a watch and resumes it, or begins another.
func (s *simulation) reopen() {
	i := s.IntN(len(s.watchers))
	w := s.watchers[i]
	switch {
	case w.forever && len(s.watchers) < 12:
		match := []string{Exact, Any, MostRecent, NotOlder}[s.IntN(4)]
		s.watch(Watch{Match: match, Initial: match == NotOlder || match != Exact && s.IntN(2) == 0, At: map[bool]int64{true: s.known}[match == Exact || match == NotOlder],
			Select: []string{"", "red"}[s.IntN(2)]}, false)
	case !w.forever && s.IntN(10) == 0:
		s.history.Watches = append(s.history.Watches, w.Watch)
		s.watchers = slices.Delete(s.watchers, i, i+1)
		if s.IntN(3) > 0 {
			s.watch(Watch{Match: Exact, At: w.cursor, Select: w.Select}, false)
		}
	}
}
