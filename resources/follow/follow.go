package follow

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources"
)

// Source says which objects are followed, and how.
type Source struct {
	Store  resources.View
	Logger *slog.Logger
	// Name is the name in the log for what the Handler looks after.
	Name string

	// Objects are followed: all of a Resource, those of a Namespace, or the one with a Name.
	Objects []resources.Key
	// Registry, when set, makes every object followed whose type Types returns true for, as types come and go. A type with an unreadable
	// object is left out until the object is readable; see Turn.Unread.
	Registry *resources.Registry
	Types    func(*resources.Type) bool
	// Existing: objects that exist when their type begins to be followed are delivered first, as if they were created.
	Existing bool
	// Changed, when set, returns a channel that is closed when there is a reason for a Turn other than events.
	Changed func() <-chan struct{}

	// Shortest and Longest are the pauses after the first failure and after many; they double in between. 0: a second, a minute.
	Shortest, Longest time.Duration
}

// Handler gets the changes. Only the goroutine of Run calls its methods.
type Handler interface {
	// Begin tells the Handler to forget what it learnt from events: the next events start with the present state. It comes first, and
	// again after history was lost.
	Begin()
	// Observe delivers events, PageSize at most.
	Observe(events []*resources.Event)
	// Turn comes after a round: all events of every watch were observed. It returns the time until it is to be called again without an
	// event, 0 for never; only the result of a quiet turn counts. After an error it is called again, at increasing intervals, with
	// Turn.Whole.
	Turn(ctx context.Context, t Turn) (again time.Duration, err error)
}

// TypesHandler is a Handler that learns when types of Source.Registry start and stop being followed. Its methods are called like those
// of Handler. Changes of a type's objects while it is not followed are not delivered.
type TypesHandler interface {
	Handler
	// Opened comes when the existing objects of a type were delivered, with Source.Existing.
	Opened(resource string)
	// Closed comes after the last event of a type that has left the Catalog, with the kind of its objects.
	Closed(resource string, kind schema.GroupKind)
}

// Turn describes a round.
type Turn struct {
	// Catalog has the types that were followed; nil without Source.Registry.
	Catalog *resources.Catalog
	// Quiet: all events so far were observed. Otherwise another turn comes soon.
	Quiet bool
	// Whole: there is a reason for the turn besides events, so that everything has to be checked: it is the first since Begin, the one
	// before failed, Source.Changed was closed, or the time has come. It stays set until a quiet turn succeeds.
	Whole bool
	// Unread are the types of Source.Registry that are not followed at present, because some of their objects cannot be read. Once they
	// can, everything begins again.
	Unread []string
}

// PageSize is the greatest number of events in one call of Observe.
const PageSize = 1000

// Run delivers the changes that s selects to h until ctx ends or the store is closed.
func Run(ctx context.Context, s Source, h Handler) {
	s.Shortest, s.Longest = cmp.Or(s.Shortest, time.Second), cmp.Or(s.Longest, time.Minute)
	f := &stream{Source: s, handler: h, ready: newReady()}
	defer f.close()
	pause := s.Shortest
	for {
		quiet, err := f.round(ctx)
		switch {
		case Over(ctx, err):
			return
		case err != nil:
			f.complain(err)
			if !sleep(ctx, pause) {
				return
			}
			pause = min(2*pause, s.Longest)
		case quiet:
			pause = s.Shortest
			if len(f.unread) == 0 {
				f.said.err = ""
			}
			f.await(ctx)
		}
	}
}

// sayAgain is the time after which an unchanged error is logged again.
const sayAgain = 10 * time.Minute

// complaint is the last logged error, and its time.
type complaint struct {
	err string
	at  time.Time
}

// complain logs an error, unless it was logged recently.
func (f *stream) complain(err error) {
	if now := time.Now(); f.said.err != err.Error() || now.Sub(f.said.at) >= sayAgain {
		f.said = complaint{err.Error(), now}
		f.Logger.Warn("changes cannot be followed, trying again", "for", f.Name, "error", err)
	}
}

// Over reports whether there is nothing left to do: ctx has ended, or the store is closed.
func Over(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, resources.ErrClosed)
}

// sleep returns false when ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
