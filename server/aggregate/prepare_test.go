package aggregate_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/rowlock/rowlock/resources/behind"
	"github.com/rowlock/rowlock/server/aggregate"
	"github.com/rowlock/rowlock/server/servertest"
)

// At a start, the group of another server is in discovery as Stale while that server accepts a request and does not answer it. This delays neither
// discovery nor the other checks. The start is finished when the server was asked: discovery then has what it serves.
func TestDiscoveryAtStart(t *testing.T) {
	f := newFixture(t)
	const check, ours = "/readyz/poststarthook/apiservice-discovery-controller", `items.#(metadata.name=="apples.example.com").versions`
	f.must("GET", check, "") // there is no other server
	f.stopControllers()
	f.aggregator.AskWithin(patience)
	f.register()
	asked, answer := make(chan struct{}, 99), make(chan struct{})
	hang := func(r *http.Request) {
		asked <- struct{}{}
		select {
		case <-answer:
		case <-r.Context().Done():
		}
	}
	f.ext.before.Store(&hang)
	if err := f.aggregator.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	run(t, f.aggregator.Run)
	<-asked
	all := gjson.Parse(f.must("GET", "/apis", "", "Accept", aggregated))
	if got := all.Get(ours).Raw; got != `[{"version":"v1","freshness":"Stale"}]` || !all.Get(`items.#(metadata.name=="apps").versions.0.resources`).Exists() {
		t.Errorf("discovery has %s", got)
	}
	f.must("GET", "/readyz/ping", "")
	if code, text := f.send("GET", check, ""); code != http.StatusInternalServerError || text != "internal server error: not finished\n" {
		t.Errorf("%d %s", code, text)
	}
	close(answer)
	ended := time.After(patience)
	for {
		code, _ := f.send("GET", check, "")
		v := gjson.Get(f.must("GET", "/apis", "", "Accept", aggregated), ours+".0")
		if code == http.StatusOK && v.Get("freshness").Str == "Current" && v.Get("resources.0.resource").Str == "apples" {
			break
		}
		select {
		case <-ended:
			t.Fatalf("the start does not end: %d, discovery has %s", code, v)
		case <-time.After(5 * time.Millisecond): // no event reports it
		}
	}
}

// The start ends without servers that are gone: without an answer of theirs, and when their APIServices are deleted.
func TestStartWithoutOtherServers(t *testing.T) {
	f := newFixture(t)
	f.stopControllers()
	f.apiService() // its Service is missing
	f.must("POST", apiServices, `{"metadata":{"name":"v1.pears.example.com"},"spec":{"group":"pears.example.com","version":"v1","groupPriorityMinimum":2000,
		"versionPriority":10,"service":{"namespace":"default","name":"gone"}}}`)
	a := aggregate.New(aggregate.Config{Registry: f.registry, Store: f.store, Logger: servertest.Quiet, ServiceRouting: behind.ToReady})
	if err := a.Prepare(t.Context()); err != nil || a.Asked() || len(a.External().Versions) != 2 {
		t.Fatalf("%v, %v, %v", err, a.Asked(), a.External())
	}
	f.must("DELETE", apiServices+"/v1.pears.example.com", "")
	run(t, a.Run)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !a.Asked() || len(a.External().Versions) != 1 {
		select {
		case <-ctx.Done():
			t.Fatalf("the start does not end: %v", a.External())
		case <-time.After(5 * time.Millisecond): // no event reports it
		}
	}
}
