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
	// forget marks a new beginning: after it, the existing objects are shown as created, and then every change.
	forget()
	// observe shows a change. Changes of one type come in their order, those of several types nearly so.
	observe(e *resources.Event)
	// typesChanged reports that types were added or removed.
	typesChanged()
}

// selective is an observer that is shown the changes of some types only.
type selective interface {
	// follows returns the names of these types.
	follows() []string
}

// roundObserver is an observer whose decisions depend on the changes of several types.
type roundObserver interface {
	// turn is called after every round. t.Quiet: all changes so far were shown. Otherwise the next round comes soon,
	// and shows at least the changes that happened before any change of the last round was visible.
	turn(t follow.Turn)
	// shown is called when all objects of a type were shown that is new or served again.
	shown(resource string)
	// left reports that a type is no longer served, and that changes of its objects are no longer shown.
	left(resource string, kind schema.GroupKind)
}

// feed shows the changes of all types to observers.
type feed struct {
	observers []observer
	// all are the observers of all types; some has those of some types, by the name of the type.
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

// feedPause is how long the feed waits before it continues after an error of the store. It does not grow, because the feed only reads.
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

// rounds yields the observers that implement roundObserver.
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
