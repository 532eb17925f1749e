package controllers

import (
	"fmt"
	"log/slog"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/untyped/untypedtest"
)

// A change of the catalog queues exactly the objects that waited for it, however many wait for other types.
func TestOnlyThoseThatWaitedAreJudged(t *testing.T) {
	registry := resources.NewRegistry()
	g := newGarbage(Config{Registry: registry, Logger: slog.New(slog.DiscardHandler)})
	g.forget()
	wait := func(uid types.UID, until absent) {
		g.graph.put(resources.Key{Resource: "configmaps", Namespace: "ns", Name: string(uid)}, metadata{uid: uid,
			owners: []owner{{uid: "owner", apiVersion: until.kind.GroupVersion().String(), kind: until.kind.Kind}}})
		g.park(uid, until)
	}
	for i := range 1000 {
		wait(types.UID(fmt.Sprint("other-", i)), absent{kind: schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Other"}})
	}
	v1 := untypedtest.Versions()[0]
	wait("by-kind", absent{kind: v1.GV().WithKind("Toy")})
	wait("by-version", absent{kind: schema.GroupVersionKind{Group: untypedtest.Group, Version: "v2", Kind: "Toy"}})
	wait("by-resource", absent{resource: "toys." + untypedtest.Group})
	wait("gone", absent{kind: v1.GV().WithKind("Toy")})
	g.observe(&resources.Event{Op: resources.Delete, Object: &resources.Object{Key: resources.Key{Resource: "configmaps"},
		Data: []byte(`{"metadata":{"uid":"gone"}}`)}})
	if err := untypedtest.Serve(registry, v1); err != nil {
		t.Fatal(err)
	}
	g.typesChanged()
	if n := g.deletions.Len(); n != 2 {
		t.Errorf("%d are judged", n)
	}
	wait("late", absent{kind: v1.GV().WithKind("Toy")}) // it has been served meanwhile
	if n := g.deletions.Len(); n != 3 {
		t.Errorf("%d are judged", n)
	}
	if len(g.parked.waits) != 1001 || len(g.parked.by) != 2 {
		t.Errorf("%d wait for %d", len(g.parked.waits), len(g.parked.by))
	}
}
