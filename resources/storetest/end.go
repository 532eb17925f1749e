package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/rowlock/rowlock/resources"
)

var endTests = map[string]func(*suite){
	"RestartKeepsAll":       testRestartKeepsAll,
	"WatchOverRestart":      testWatchOverRestart,
	"RestartOfAFreshStore":  testRestartOfAFreshStore,
	"CrashKeepsCommitted":   testCrashKeepsCommitted,
	"CrashUnderLoad":        testCrashUnderLoad,
	"CloseEndsWatches":      testCloseEndsWatches,
	"CloseRefusesWrites":    testCloseRefusesWrites,
	"CloseFinishesWrites":   testCloseFinishesWrites,
	"RevisionsNeverGoBack":  testRevisionsNeverGoBack,
	"AllBytesSurvive":       testAllBytesSurvive,
	"StoredIsNotShown":      testStoredIsNotShown,
	"DeletedStaysDeleted":   testDeletedStaysDeleted,
	"FieldsSurviveARestart": testFieldsSurviveARestart,
}

// A Commit that returned nil is durable.
func testRestartKeepsAll(s *suite) {
	s.scribble(6, 200)
	s.commitOne(create(node("n"), "x"))
	pods, nodes := s.snapshot("pods", current), s.snapshot("nodes", current)
	s.store = s.h.Restart(s.T)
	s.want("pods", s.contents(pods), s.contents(s.snapshot("pods", current)))
	s.want("nodes", s.contents(nodes), s.contents(s.snapshot("nodes", current)))
	s.want("revision", pods.Revision(), s.snapshot("pods", current).Revision())
}

// A watch that starts at an old revision goes on over a restart of the server, without a relist.
func testWatchOverRestart(s *suite) {
	start := s.snapshot("pods", current).Revision()
	want, _ := s.story(pod("ns", "a"))
	more, _ := s.story(pod("ns", "b"))
	want = append(want, more...)
	s.store = s.h.Restart(s.T)
	for i := range want {
		w := s.watch(resources.WatchOptions{Resource: "pods", After: start + int64(i)})
		s.want("events", want[i:], s.events(w, len(want)-i))
	}
	w := s.watch(resources.WatchOptions{Resource: "pods", After: start + 2})
	more, _ = s.story(pod("ns", "c"))
	want = append(want, more...)
	s.want("events of before and after the restart", want[2:], s.events(w, len(want)-2))
}

// A store without any write is at a revision other than 0, which means "any".
func testRestartOfAFreshStore(s *suite) {
	revision := s.snapshot("pods", current).Revision()
	if revision < 1 {
		s.Errorf("a fresh store is at revision %d", revision)
	}
	s.store = s.h.Restart(s.T)
	s.want("revision", revision, s.snapshot("pods", current).Revision())
}

// A Commit that returned nil is durable: it survives the sudden end of the process.
func testCrashKeepsCommitted(s *suite) {
	states := s.scribble(7, 100)
	snap := s.snapshot("pods", current)
	s.store = s.h.Crash(s.T)
	s.want("pods", s.contents(snap), s.contents(s.snapshot("pods", current)))
	s.wantStates(states)
}

// A write that was acknowledged before a crash is there after it, and a transaction is stored as a whole or not at all.
func testCrashUnderLoad(s *suite) {
	const writers = 16
	var acknowledged sync.Map
	var count atomic.Int64
	enough := make(chan struct{})
	stop := make(chan struct{})
	before := s.store
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				name := fmt.Sprintf("%d-%d", i, n)
				if _, err := before.Commit(s.ctx, create(pod("ns", name), "x"), create(node(name), "x")); err != nil {
					s.Errorf("commit: %v", err)
					return
				}
				acknowledged.Store(name, true)
				if count.Add(1) == 200 {
					close(enough)
				}
			}
		})
	}
	<-enough
	var promised []string
	acknowledged.Range(func(name, _ any) bool {
		promised = append(promised, name.(string))
		return true
	})
	s.store = s.h.Crash(s.T)
	close(stop)
	wg.Wait()
	pods, nodes := s.snapshot("pods", current), s.snapshot("nodes", current)
	for _, name := range promised {
		if pods.Get("ns", name) == nil || nodes.Get("", name) == nil {
			s.Errorf("%s was acknowledged and is lost", name)
		}
	}
	pods.Ascend("", "", func(o *resources.Object) bool {
		if nodes.Get("", o.Name) == nil {
			s.Errorf("of the two writes of %s only one survived", o.Name)
		}
		return true
	})
	s.want("number of nodes", pods.Count("", ""), nodes.Count("", ""))
	s.want("revision", int64(2*pods.Count("", ""))+1, pods.Revision())
}

// ErrClosed: the store is shutting down.
func testCloseEndsWatches(s *suite) {
	w := s.watch(resources.WatchOptions{Resource: "pods", After: s.snapshot("pods", current).Revision()})
	s.quiet(w)
	s.h.Close(s.T)
	select {
	case <-w.Ready():
	case <-s.ctx.Done():
		s.Fatal("the store is closed and the watch not ready")
	}
	_, _, err := w.Next(s.ctx, 10)
	s.wantError("next", resources.ErrClosed, err)
	_, err = s.store.Watch(s.ctx, resources.WatchOptions{Resource: "pods"})
	s.wantError("watch", resources.ErrClosed, err)
}

// ErrClosed: the store is shutting down.
func testCloseRefusesWrites(s *suite) {
	s.h.Close(s.T)
	_, err := s.store.Commit(s.ctx, create(pod("ns", "a"), "x"))
	s.wantError("commit", resources.ErrClosed, err)
}

// Writes in flight are finished or refused, and each gets an answer.
func testCloseFinishesWrites(s *suite) {
	const writers = 50
	var wg sync.WaitGroup
	var made atomic.Int64
	for i := range writers {
		wg.Go(func() {
			for n := 0; ; n++ {
				_, err := s.store.Commit(s.ctx, create(pod("ns", fmt.Sprintf("%d-%d", i, n)), "x"))
				if err != nil {
					s.wantError("commit", resources.ErrClosed, err)
					return
				}
				made.Add(1)
			}
		})
	}
	s.h.Close(s.T)
	wg.Wait()
	s.store = s.h.Restart(s.T)
	s.want("pods", int(made.Load()), s.snapshot("pods", current).Count("", ""))
}

// A revision is never given twice, and never goes back.
func testRevisionsNeverGoBack(s *suite) {
	last := int64(0)
	for i := range 3 {
		o := s.commitOne(create(pod("ns", fmt.Sprint(i)), "x"))
		gone := s.commitOne(remove(o))
		if o.Revision <= last {
			s.Errorf("revision %d was given after %d", o.Revision, last)
		}
		last = gone.Revision
		s.h.Prune(s.T)
		s.store = s.h.Restart(s.T)
	}
}

// Data is kept byte for byte, whatever the bytes are.
func testAllBytesSurvive(s *suite) {
	key := pod("ns", "a")
	w := create(key, "x")
	text := `"\u0000\\\"'$1;--é😀` + "\u2028\u2029" + `"`
	w.Draft.Data = append(w.Draft.Data[:len(w.Draft.Data)-1:len(w.Draft.Data)-1], `,"big":12345678901234567890.000001e+3 , "text":`+text+` }`...)
	made := s.commitOne(w)
	next := update(made, "y")
	changed := s.commitOne(next)
	s.store = s.h.Restart(s.T)
	got := s.snapshot("pods", exactly(made.Revision)).Get("ns", "a")
	s.want("data of the past", string(made.Data), string(got.Data))
	s.want("data of the present", string(changed.Data), string(s.snapshot("pods", current).Get("ns", "a").Data))
}

// A deleted object stays deleted over a restart, and its name can be used again.
func testDeletedStaysDeleted(s *suite) {
	o := s.commitOne(create(pod("ns", "a"), "x"))
	s.commitOne(remove(o))
	s.store = s.h.Restart(s.T)
	_, err := s.store.Get(s.ctx, o.Key, current)
	if !errors.Is(err, resources.ErrNotFound) {
		s.Errorf("get: %v", err)
	}
	s.commitOne(create(o.Key, "y"))
}

// Labels and fields survive a restart without the type's code.
func testFieldsSurviveARestart(s *suite) {
	plain, _ := resources.DraftOf([]byte(`{"metadata":{"resourceVersion":"0","name":"plain","namespace":"ns"}}`))
	s.commitOne(resources.Write{Op: resources.Create, Key: pod("ns", "plain"), Draft: plain})
	rich := s.commitOne(create(pod("ns", "rich"), `a "quoted" = word`))
	s.store = s.h.Restart(s.T)
	snap := s.snapshot("pods", current)
	s.want("object", s.describe(rich), s.describe(snap.Get("ns", "rich")))
	if o := snap.Get("ns", "plain"); len(o.Labels) != 0 || len(o.Fields) != 0 {
		s.Errorf("labels %v and fields %v came from nowhere", o.Labels, o.Fields)
	}
}
