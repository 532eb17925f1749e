package controllers_test

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/controllers"
)

// One of several servers leads. When it stops, another one does.
func TestElection(t *testing.T) {
	c := newCluster(t)
	c.namespace("kube-system")
	news := make(chan string, 10)
	run := func(name string) (stop func()) {
		ctx, cancel := context.WithCancel(c.ctx)
		done := make(chan error)
		e := controllers.Election{Registry: c.registry, Store: c.store, Identity: name, Term: 2 * time.Second,
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
