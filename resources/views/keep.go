package views

import (
	"context"
	"log/slog"
	"time"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/custom"
	"github.com/rowlock/rowlock/resources/follow"
)

// Keeper keeps the views of all served types up to date. Every server has one: all want the same views.
type Keeper struct {
	Registry *resources.Registry
	Store    resources.View
	Logger   *slog.Logger
	// Keep makes the existing views equal to these. left are the failed ones, by their names; they are tried again.
	Keep func(ctx context.Context, views []View) (left map[string]error, err error)

	builtin []View
	left    Left
	// known are the views of definitions by their names, each with the revision of its definition.
	known map[string]ofRevision
}

// ofRevision is the result for a definition at a revision.
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

// Observe implements follow.Handler. Turn computes all views.
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
	left, err := k.Keep(ctx, Together(views))
	if err != nil {
		return 0, err
	}
	k.known = known
	return k.left.Again(k.Logger, left), nil
}

// Left remembers the errors of the views that failed, and the pause before the next attempt. Its zero value has none.
type Left struct {
	told  map[string]string
	pause time.Duration
}

const (
	againFirst = 5 * time.Second
	againLast  = 10 * time.Minute
)

// Again returns the time until the views in left, with their errors, are tried again, which increases; 0: there are none. It logs errors that differ
// from the last call's.
func (l *Left) Again(logger *slog.Logger, left map[string]error) time.Duration {
	told := make(map[string]string, len(left))
	for name, err := range left {
		if told[name] = err.Error(); told[name] != l.told[name] {
			logger.Warn("a view for SQL could not be updated", "view", name, "error", err)
		}
	}
	l.told = told
	if len(left) == 0 {
		l.pause = 0
		return 0
	}
	l.pause = min(max(2*l.pause, againFirst), againLast)
	return l.pause
}
