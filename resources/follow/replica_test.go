package follow_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/follow"
)

// replica is a Handler that keeps a copy of the objects, and checks the order.
type replica struct {
	*testing.T
	objects map[resources.Key]int64
	last    map[string]int64 // by resource
	quiet   func(*replica)
}

func (r *replica) Begin() { r.objects, r.last = map[resources.Key]int64{}, map[string]int64{} }

func (r *replica) Observe(events []*resources.Event) {
	if len(events) > follow.PageSize {
		r.Errorf("%d events at once", len(events))
	}
	for _, e := range events {
		known := r.objects[e.Object.Key]
		if e.Revision <= known || e.Op != resources.Create && e.Revision <= r.last[e.Object.Resource] {
			r.Errorf("%s at %d comes after %d of it, %d of its type", e.Object.Key, e.Revision, known, r.last[e.Object.Resource])
		}
		r.last[e.Object.Resource] = max(r.last[e.Object.Resource], e.Revision)
		r.objects[e.Object.Key] = e.Revision
		if e.Op == resources.Delete {
			delete(r.objects, e.Object.Key)
		}
	}
}

func (r *replica) Turn(_ context.Context, t follow.Turn) (time.Duration, error) {
	if t.Quiet {
		r.quiet(r)
	}
	return 0, nil
}

// Whatever fails while several write: in the end a Handler has the existing objects, and got the changes in order.
func TestReplica(t *testing.T) {
	f := newFixture(t)
	const types, writers, writes = 3, 4, 300
	s := f.source()
	s.Existing, s.Objects = true, nil
	for i := range types {
		s.Objects = append(s.Objects, resources.Key{Resource: fmt.Sprint("things", i)})
	}
	expired := &resources.ExpiredError{Requested: 1, Oldest: 2}
	ctx, stop := context.WithCancel(f.ctx)
	defer stop()
	var working sync.WaitGroup
	var done atomic.Bool
	for w := range writers {
		random := rand.New(rand.NewPCG(uint64(w), 8))
		working.Go(func() {
			for i := range writes {
				resource, name := fmt.Sprint("things", random.IntN(types)), fmt.Sprintf("%d-%d", w, random.IntN(10))
				op := resources.Create
				if _, err := f.store.Get(f.ctx, resources.Key{Resource: resource, Name: name}, resources.At{}); err == nil {
					op = []resources.Op{resources.Update, resources.Delete}[random.IntN(2)]
				}
				f.write(op, resource, name)
				if i%20 == 0 {
					f.fail([]string{"open", "next"}[random.IntN(2)], resources.ErrUnavailable)
				}
				if w == 0 && i%50 == 0 {
					f.fail("next", expired)
				}
			}
		})
	}
	var end sync.WaitGroup
	end.Go(func() {
		working.Wait()
		done.Store(true)
		f.write(resources.Create, "things0", "end")
	})
	follow.Run(ctx, s, &replica{T: t, quiet: func(r *replica) {
		if _, ended := r.objects[resources.Key{Resource: "things0", Name: "end"}]; ended && done.Load() {
			r.compare(f)
			stop()
		}
	}})
	end.Wait() // the follower may see the last write before its writer returns
	if f.ctx.Err() != nil {
		t.Error("the end was never told")
	}
}

func (r *replica) compare(f *fixture) {
	n := 0
	for i := range 3 {
		now, err := f.store.Snapshot(f.ctx, fmt.Sprint("things", i), resources.At{})
		if err != nil {
			r.Fatal(err)
		}
		now.Ascend("", "", func(o *resources.Object) bool {
			n++
			if r.objects[o.Key] != o.Revision {
				r.Errorf("%s is at %d, known at %d", o.Key, o.Revision, r.objects[o.Key])
			}
			return true
		})
	}
	if n != len(r.objects) {
		r.Errorf("there are %d objects, known are %d", n, len(r.objects))
	}
}
