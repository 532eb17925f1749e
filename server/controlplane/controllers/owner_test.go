package controllers

import (
	"context"
	"log/slog"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/untyped/untypedtest"
)

// emptyStore is a store without objects that counts the reads that may ask the database.
type emptyStore struct {
	resources.View
	asked int
}

func (s *emptyStore) Get(_ context.Context, _ resources.Key, at resources.At) (*resources.Object, error) {
	if at.Match != resources.Any {
		s.asked++
	}
	return nil, resources.ErrNotFound
}

// An owner that is gone costs one question to the database.
func TestOneReadForEachOwner(t *testing.T) {
	registry, store := resources.NewRegistry(), &emptyStore{}
	v1 := untypedtest.Versions()[0]
	if err := untypedtest.Serve(registry, v1); err != nil {
		t.Fatal(err)
	}
	g := newGarbage(Config{Registry: registry, Store: store, Logger: slog.New(slog.DiscardHandler)})
	gone := func(name string) owner {
		return owner{uid: types.UID(name), name: name, apiVersion: v1.GV().String(), kind: "Toy"}
	}
	owners := []owner{gone("one"), gone("other")}
	states, err := g.classify(t.Context(), resources.Key{Resource: "configmaps", Namespace: "ns", Name: "dependent"}, owners)
	if err != nil || len(states[dangling]) != 2 || store.asked != 2 {
		t.Errorf("%v, %v, after %d reads", states, err, store.asked)
	}
}
