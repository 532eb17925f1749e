package controllers

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/follow"
)

// observer is shown all changes, by one goroutine.
type observer interface {
	// forget is the beginning: after it, what exists is shown as if it were created now, and then every change.
	forget()
	// observe shows a change. Those of one type come in their order, those of several nearly so.
	observe(e *resources.Event)
	// typesChanged tells that types were added or removed.
	typesChanged()
}

// selective is an observer that is shown the changes of a few types.
type selective interface {
	// follows returns the names of the types.
	follows() []string
}

// roundObserver is an observer that judges by what it has been shown of several types.
type roundObserver interface {
	// turn comes after every round. Quiet: all that has happened was shown. Otherwise the next round is to come soon,
	// and will show at least what had happened before anything of the last was visible.
	turn(t follow.Turn)
	// shown comes when all objects of a type were shown that is new, or served again.
	shown(resource string)
	// left tells that a type is no longer served, and what happens to its objects no longer shown.
	left(resource string, kind schema.GroupKind)
}

// feed shows the changes of all types to observers.
type feed struct {
	observers []observer
	// of all types, and of some by the names of these.
	all     []observer
	some    map[string][]observer
	catalog *resources.Catalog
}

func (f *feed) add(o observer) {
	f.observers = append(f.observers, o)
	s, ok := o.(selective)
	if !ok {
		f.all = append(f.all, o)
		return
	}
	if f.some == nil {
		f.some = map[string][]observer{}
	}
	for _, resource := range s.follows() {
		f.some[resource] = append(f.some[resource], o)
	}
}

// feedPause is how long the feed waits before it goes on after an error of the store: it only reads.
const feedPause = time.Second

// run follows until ctx ends or the store is closed.
func (f *feed) run(ctx context.Context, c Config) {
	follow.Run(ctx, follow.Source{Store: c.Store, Logger: c.Logger, Name: "what belongs to what", Registry: c.Registry, Existing: true,
		Types:    func(t *resources.Type) bool { return slices.Contains(t.Verbs(), "delete") },
		Shortest: feedPause, Longest: feedPause}, f)
}

// Begin implements follow.Handler.
func (f *feed) Begin() {
	f.catalog = nil
	for _, o := range f.observers {
		o.forget()
	}
}

// Observe implements follow.Handler.
func (f *feed) Observe(events []*resources.Event) {
	for _, e := range events {
		for _, o := range f.all {
			o.observe(e)
		}
		for _, o := range f.some[e.Object.Resource] {
			o.observe(e)
		}
	}
}

// rounds are the observers that want to know of rounds.
func (f *feed) rounds(yield func(roundObserver) bool) {
	for _, o := range f.observers {
		if r, ok := o.(roundObserver); ok && !yield(r) {
			return
		}
	}
}

// Opened implements follow.TypesHandler.
func (f *feed) Opened(resource string) {
	for o := range f.rounds {
		o.shown(resource)
	}
}

// Closed implements follow.TypesHandler.
func (f *feed) Closed(resource string, kind schema.GroupKind) {
	for o := range f.rounds {
		o.left(resource, kind)
	}
}

// Turn implements follow.Handler.
func (f *feed) Turn(_ context.Context, t follow.Turn) (time.Duration, error) {
	changed := f.catalog != nil && f.catalog != t.Catalog
	f.catalog = t.Catalog
	if changed {
		for _, o := range f.observers {
			o.typesChanged()
		}
	}
	for o := range f.rounds {
		o.turn(t)
	}
	return 0, nil
}
