package record

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/rowlock/rowlock/e2e/checker/history"
)

const (
	// inFlight is how many clients write while writes are lost.
	inFlight = 6
	// writesBefore is how many of their writes are acknowledged before, at least.
	writesBefore = 3
)

// duringLoss calls lose while clients write. They have had answers before, and they go on until they have had one to a request of after the loss.
func (r *recorder) duringLoss(ctx context.Context, o *Options, lose func() error) error {
	ctx, cancel := context.WithTimeout(ctx, o.EndWithin)
	defer cancel()
	var clients, ready sync.WaitGroup
	var errs errorList
	over := make(chan struct{})
	ready.Add(inFlight)
	for i := range inFlight {
		clients.Go(func() { errs.add(r.flies(ctx, i, ready.Done, over)) })
	}
	ready.Wait()
	err := lose()
	r.mu.Lock()
	r.history.Loss.Over = r.now()
	r.mu.Unlock()
	close(over)
	if err != nil {
		cancel()
	}
	clients.Wait()
	return errors.Join(append(errs.all, err)...)
}

// flies writes one object, again and again.
func (r *recorder) flies(ctx context.Context, number int, ready func(), over <-chan struct{}) error {
	random := rand.New(rand.NewPCG(uint64(number), 1<<41))
	ready = sync.OnceFunc(ready)
	defer ready()
	acknowledged := 0
	for i := 0; ctx.Err() == nil; i++ {
		late := false
		select {
		case <-over:
			late = true
		default:
		}
		done, err := r.fly(ctx, number, i, random.IntN(len(r.targets)))
		if err != nil {
			return err
		}
		if done && late {
			return nil
		}
		if !done {
			r.sleep(ctx, pause)
			continue
		}
		if acknowledged++; acknowledged == writesBefore {
			ready()
		}
	}
	return fmt.Errorf("client %d: no write was acknowledged after writes were lost: %w", number, ctx.Err())
}

// fly writes the object once, and says whether that was acknowledged.
func (r *recorder) fly(ctx context.Context, number, i, server int) (done bool, err error) {
	o := history.Operation{Client: number, Server: server, Kind: history.Apply, Name: fmt.Sprintf("flight-%d", number), Color: colors[i%len(colors)],
		Value: fmt.Sprintf("flight-%d-%d", number, i)}
	o, err = r.do(ctx, o, "")
	if errors.Is(err, errNotSent) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	r.mu.Lock()
	r.history.Loss.Flight = append(r.history.Loss.Flight, o)
	r.mu.Unlock()
	return o.Object != nil, nil
}
