package controllers_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/controlplane/controllers"
)

// One of several servers leads. When it stops, another one does.
func TestElection(t *testing.T) {
	c := newCluster(t)
	c.namespace("kube-system")
	news := make(chan string, 10)
	run := func(name string) (stop func()) {
		ctx, cancel := context.WithCancel(c.ctx)
		done := make(chan error)
		// A server that cannot renew for two thirds of the term rightly loses the leadership.
		e := controllers.Election{Registry: c.registry, Store: c.store, Pipeline: c.pipeline, Identity: name, Term: 10 * time.Second,
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
		go func() {
			done <- e.Elect(ctx, func(ctx context.Context) {
				news <- name + " begins"
				<-ctx.Done()
				news <- name + " ends"
			})
		}()
		return func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	stop := map[string]func(){"one begins": run("one"), "two begins": run("two")}
	first := <-news
	if c.get(resources.Key{Resource: "leases.coordination.k8s.io", Namespace: "kube-system", Name: "rowlock-controllers"}) == nil {
		t.Error("there is no lease")
	}
	stop[first]()
	delete(stop, first)
	second := ""
	for second == "" {
		if n := <-news; stop[n] != nil {
			second = n
		}
	}
	stop[second]()
	close(news)
	var rest []string
	for n := range news {
		if n[:3] == second[:3] {
			rest = append(rest, n)
		}
	}
	if diff := cmp.Diff([]string{second[:3] + " ends"}, rest); diff != "" {
		t.Error(diff)
	}
}

// With a lock, the Lease records the holder, and no holder when the lock is released.
func TestElectionByLock(t *testing.T) {
	c := newCluster(t)
	c.namespace("kube-system")
	key := resources.Key{Resource: "leases.coordination.k8s.io", Namespace: "kube-system", Name: "rowlock-controllers"}
	holder := func() (name string, transitions, seconds int64) {
		var lease coordinationv1.Lease
		o := c.get(key)
		if o == nil {
			t.Fatal("there is no lease")
		}
		if err := json.Unmarshal(o.Data, &lease); err != nil {
			t.Fatal(err)
		}
		return *lease.Spec.HolderIdentity, int64(*lease.Spec.LeaseTransitions), int64(*lease.Spec.LeaseDurationSeconds)
	}
	for i, name := range []string{"one", "two", "two", "one"} {
		e := controllers.Election{Registry: c.registry, Store: c.store, Pipeline: c.pipeline, Identity: name,
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
			Lock: func(ctx context.Context, lead func(context.Context)) error {
				lead(ctx)
				return nil
			}}
		err := e.Elect(c.ctx, func(context.Context) {
			if got, transitions, seconds := holder(); got != name || transitions != int64(i) || seconds != 15 {
				t.Errorf("term %d of %s: held by %q for %d s after %d transitions", i, name, got, seconds, transitions)
			}
		})
		if err != nil {
			t.Error(err)
		}
		if got, _, _ := holder(); got != "" {
			t.Errorf("%s is still the holder after the term of %s", got, name)
		}
	}
}
