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

// Source says what is followed, and where.
type Source struct {
	Store  resources.View
	Logger *slog.Logger
	// Name says in the log what is not looked after when something is wrong.
	Name string

	// Objects are followed: all of a Resource, or those of a Namespace, or the one of a Name.
	Objects []resources.Key
	// Registry, when set, has every object of its types followed for which Types returns true, as types come and go. A type of which an
	// object cannot be read is left out until it can; see Turn.Unread.
	Registry *resources.Registry
	Types    func(*resources.Type) bool
	// Existing: what is there when it begins to be followed is told first, as if it were created.
	Existing bool
	// Changed, when set, returns a channel that is closed when there is a reason for a Turn besides events.
	Changed func() <-chan struct{}

	// Shortest and Longest are the pauses after the first failure and after many, in between they double. 0: a second,
	// a minute.
	Shortest, Longest time.Duration
}

// Handler is told of changes. Its methods are called by the goroutine of Run alone.
type Handler interface {
	// Begin says to forget what was learnt from events: what follows begins with the present. It comes first, and again
	// after history was lost.
	Begin()
	// Observe tells of events, PageSize at most.
	Observe(events []*resources.Event)
	// Turn comes after a round: what every watch had to tell was observed. It returns when it is to be called again without
	// an event, 0 for never; only what a quiet turn returns counts. After an error it is called again, later and later,
	// with Turn.Whole.
	Turn(ctx context.Context, t Turn) (again time.Duration, err error)
}

// TypesHandler is a Handler that is told when the types of Source.Registry begin and cease to be followed. Its methods are
// called as those of Handler are. What happens to the objects of a type while it is not followed is not told.
type TypesHandler interface {
	Handler
	// Opened comes when what is there of a type was told, with Source.Existing.
	Opened(resource string)
	// Closed comes after the last event of a type that is in the Catalog no longer, with the kind of its objects.
	Closed(resource string, kind schema.GroupKind)
}

// Turn is what a Handler is told about a round.
type Turn struct {
	// Catalog has the types that were followed; nil without Source.Registry.
	Catalog *resources.Catalog
	// Quiet: all that has happened was observed. Otherwise another turn comes soon.
	Quiet bool
	// Whole: there is more reason for the turn than events, so that everything is to be looked at: it is the first since
	// Begin, the one before failed, Source.Changed said so, or the time has come. It stays so until a quiet turn succeeds.
	Whole bool
	// Unread are the types of Source.Registry that are not followed at present, because objects of theirs cannot be read. When they can,
	// everything begins anew.
	Unread []string
}

// PageSize is how many events are observed at a time at most.
const PageSize = 1000

// Run tells h of what s names until ctx ends or the store is closed.
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

// sayAgain is after how long the log says once more that something is still as wrong as it was.
const sayAgain = 10 * time.Minute

// complaint is what the log was told last, and when.
type complaint struct {
	err string
	at  time.Time
}

// complain says what is wrong, unless that was said of late.
func (f *stream) complain(err error) {
	if now := time.Now(); f.said.err != err.Error() || now.Sub(f.said.at) >= sayAgain {
		f.said = complaint{err.Error(), now}
		f.Logger.Warn("changes cannot be followed, trying again", "for", f.Name, "error", err)
	}
}

// Over tells whether nothing further is to be done, now or later: ctx has ended, or the store is closed.
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
