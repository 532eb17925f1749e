package controllers

import (
	"bytes"
	"context"
	"time"

	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/follow"
)

// whileRemote calls run while any APIService has a Service: without one, there is no election and no Lease to renew. It returns
// when ctx ends, or with the error of run.
func whileRemote(ctx context.Context, c Config, run func(context.Context) error) error {
	following, stop := context.WithCancel(ctx)
	r := &remotes{Config: c, some: make(chan bool, 1)}
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		follow.Run(following, follow.Source{Store: c.Store, Logger: c.Logger, Name: "whether other servers extend the API", Existing: true,
			Objects: []resources.Key{{Resource: apiServicesResource}}}, r)
	}()
	defer func() {
		stop()
		<-followed
	}()
	for {
		if !r.wait(ctx, true, nil) {
			return nil
		}
		running, end := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- run(running) }()
		r.wait(ctx, false, done)
		end()
		if err := <-done; err != nil {
			return err
		}
	}
}

// remotes follows whether any APIService has a Service. It is a follow.Handler.
type remotes struct {
	Config
	names map[string]bool
	some  chan bool // holds the latest state until it is received
}

// wait waits until any APIService has a Service (some), or none has (not some), or until done has a value, which it leaves there. It returns
// false when ctx ends.
func (r *remotes) wait(ctx context.Context, some bool, done chan error) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case err := <-done:
			done <- err
			return true
		case now := <-r.some:
			if now == some {
				return true
			}
		}
	}
}

// Begin implements follow.Handler.
func (r *remotes) Begin() { r.names = map[string]bool{} }

// Observe implements follow.Handler.
func (r *remotes) Observe(events []*resources.Event) {
	t, ok := r.Registry.Catalog().Type(apiServicesResource)
	for _, e := range events {
		delete(r.names, e.Object.Name)
		if e.Op == resources.Delete || !ok || !bytes.Contains(e.Object.Data, []byte(`"service":`)) {
			continue
		}
		obj, err := t.DecodeStored(e.Object)
		if err != nil || obj.(*apiregistrationv1.APIService).Spec.Service != nil {
			r.names[e.Object.Name] = true // its check reports what is wrong with it
		}
	}
}

// Turn implements follow.Handler.
func (r *remotes) Turn(_ context.Context, t follow.Turn) (time.Duration, error) {
	if t.Quiet {
		select {
		case <-r.some:
		default:
		}
		r.some <- len(r.names) > 0 // this goroutine is the only sender
	}
	return 0, nil
}
