package record

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rowlock/rowlock/e2e/checker/history"
)

// client does one operation after the other until the time of the round is over.
func (r *recorder) client(ctx context.Context, o *Options, number int) error {
	random := rand.New(rand.NewPCG(o.Seed, uint64(number)))
	over := time.Now().Add(o.Duration)
	for i := 0; time.Now().Before(over) && ctx.Err() == nil; i++ {
		op := history.Operation{Client: number, Server: random.IntN(len(r.targets)), Name: fmt.Sprintf("object-%d", random.IntN(o.Names))}
		err := r.something(ctx, random, op, r.value(number, i))
		if errors.Is(err, errNotSent) {
			err = nil
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// something does one of the operations; value is unique to this write.
func (r *recorder) something(ctx context.Context, random *rand.Rand, o history.Operation, value string) error {
	kinds := []string{history.Create, history.Create, history.Update, history.Update, history.Patch, history.Patch, history.Apply, history.Delete,
		history.Get, history.Get, history.Get, history.List, history.List}
	o.Kind = kinds[random.IntN(len(kinds))]
	if o.Kind == history.List && r.crowd.without(random) {
		o.Kind = history.Get
	}
	switch o.Kind {
	case history.Get:
		o.Match = []string{history.MostRecent, history.MostRecent, history.Any, history.NotOlder}[random.IntN(4)]
		if o.Match == history.NotOlder {
			o.At = r.some(random)
		}
		return r.get(ctx, o)
	case history.List:
		o.Name = ""
		o.Match = []string{history.MostRecent, history.MostRecent, history.Any, history.NotOlder, history.Exact}[random.IntN(5)]
		if o.Match == history.NotOlder || o.Match == history.Exact {
			o.At = r.some(random)
		}
		o.Limit = []int{0, 0, 1, 2, 3, 5}[random.IntN(6)]
		if random.IntN(2) == 0 {
			o.Select = r.color(random)
		}
		between := time.Duration(0)
		if o.Limit > 0 && random.IntN(slowLists) == 0 {
			between = r.aWhile()
		}
		return r.list(ctx, o, between)
	}
	if o.Kind != history.Delete {
		o.Value, o.Color = value, r.color(random)
	}
	r.conditions(random, &o)
	return r.write(ctx, o, []string{mergePatch, strategicPatch, jsonPatch}[random.IntN(3)])
}

// conditions gives some writes preconditions: the state of the object that a client saw last.
func (r *recorder) conditions(random *rand.Rand, o *history.Operation) {
	known := r.known(o.Name)
	if known == nil || o.Kind == history.Create || o.Kind == history.Apply || random.IntN(2) == 0 {
		return
	}
	if o.Kind == history.Patch || random.IntN(3) > 0 {
		o.IfRevision = known.Revision
	}
	if o.Kind == history.Delete && random.IntN(2) == 0 {
		o.IfUID = known.UID
	}
}
