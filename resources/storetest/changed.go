package storetest

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/rowlock/rowlock/resources"
)

var changedTests = map[string]func(*suite){
	"Changed":           testChanged,
	"ChangedBeforeRead": testChangedBeforeRead,
}

// Changed reports each change before the writer gets its answer, for its type and for no other type.
func testChanged(s *suite) {
	a := s.commitOne(create(pod("ns", "a"), "x"))
	s.commitOne(create(node("n"), "x"))
	nodes, last := s.store.Changed("nodes"), s.store.Changed("pods")
	for _, write := range []func() *resources.Object{
		func() *resources.Object { return s.commitOne(create(pod("ns", "b"), "x")) },
		func() *resources.Object { a = s.commitOne(update(a, "y")); return a },
		func() *resources.Object { return s.commitOne(remove(a)) },
	} {
		written := write()
		now := s.store.Changed("pods")
		if now <= last || now != written.Revision {
			s.Errorf("changed at %d, then at %d, by a write at %d", last, now, written.Revision)
		}
		s.want("the number of what was not asked to change", now, s.store.Changed("pods"))
		last = now
	}
	s.want("the number of another type", nodes, s.store.Changed("nodes"))
}

// Changed has reported what a read has shown, and the next read shows what Changed has reported, also for many types changed at
// once.
func testChangedBeforeRead(s *suite) {
	types := []string{"pods", "secrets", "nodes"}
	const rounds = 200
	done := make(chan struct{})
	var all sync.WaitGroup
	for _, resource := range types {
		all.Go(func() {
			for ended := false; !ended; {
				select {
				case <-done:
					ended = true // one more round
				default:
				}
				runtime.Gosched() // for other goroutines: a spinning one holds the processor for 10 ms
				before := s.store.Changed(resource)
				snap, err := s.store.Snapshot(s.ctx, resource, any_)
				if err != nil {
					s.Error(err)
					return
				}
				after, newest := s.store.Changed(resource), int64(0)
				snap.Ascend("", "", func(o *resources.Object) bool {
					newest = max(newest, o.Revision)
					return true
				})
				if newest > after || snap.Revision() < before || before == after && newest != 0 && newest != after {
					s.Errorf("%s had changed at %d, a read at %d showed %d, and then they had at %d", resource, before, snap.Revision(), newest, after)
					return
				}
			}
		})
	}
	written := make([]*resources.Object, len(types))
	for i := range rounds {
		var writes []resources.Write
		for n, resource := range types {
			if i == 0 {
				writes = append(writes, create(resources.Key{Resource: resource, Namespace: "ns", Name: "a"}, "x"))
			} else {
				writes = append(writes, update(written[n], fmt.Sprint(i)))
			}
		}
		written = s.commit(writes...)
	}
	close(done)
	all.Wait()
}
