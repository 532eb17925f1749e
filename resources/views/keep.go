package views

import (
	"context"
	"log/slog"
	"time"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/custom"
	"github.com/rowlock/rowlock/resources/follow"
)

// Keeper has somebody keep the views of all that is served. Every server has one: all want the same.
type Keeper struct {
	Registry *resources.Registry
	Store    resources.View
	Logger   *slog.Logger
	// Keep makes the views that there are be these.
	Keep func(ctx context.Context, views []View) error

	builtin []View
	// known are the views of definitions by their names, each of the definition at a revision.
	known map[string]ofRevision
}

// ofRevision is what a definition at a revision has come to.
type ofRevision struct {
	revision int64
	view     View
	served   bool
}

// Run keeps the views until ctx ends or the store is closed.
func (k *Keeper) Run(ctx context.Context) {
	k.builtin = OfCatalog(k.Registry.Catalog()) // these do not change while the process runs
	follow.Run(ctx, follow.Source{Store: k.Store, Logger: k.Logger, Name: "the views for SQL",
		Objects: []resources.Key{{Resource: custom.Resource}}}, k)
}

// Begin implements follow.Handler.
func (k *Keeper) Begin() { k.known = map[string]ofRevision{} }

// Observe implements follow.Handler. Everything is looked at in the end.
func (k *Keeper) Observe([]*resources.Event) {}

// Turn implements follow.Handler.
func (k *Keeper) Turn(ctx context.Context, t follow.Turn) (again time.Duration, err error) {
	if !t.Quiet {
		return 0, nil
	}
	snapshot, err := k.Store.Snapshot(ctx, custom.Resource, resources.At{Match: resources.Any})
	if err != nil {
		return 0, err
	}
	views, changed := append([]View(nil), k.builtin...), t.Whole
	known := make(map[string]ofRevision, len(k.known))
	for o := range func(yield func(*resources.Object) bool) { snapshot.Ascend("", "", yield) } {
		was, ok := k.known[o.Name]
		if !ok || was.revision != o.Revision {
			v, served := OfDefinition(o.Unpacked().Data)
			changed = changed || served != was.served || !v.same(was.view)
			was = ofRevision{o.Revision, v, served}
		}
		if known[o.Name] = was; was.served {
			views = append(views, was.view)
		}
	}
	for name, was := range k.known {
		if _, still := known[name]; !still && was.served {
			changed = true
		}
	}
	if !changed {
		k.known = known
		return 0, nil
	}
	if err := k.Keep(ctx, views); err != nil {
		return 0, err
	}
	k.known = known
	return 0, nil
}
