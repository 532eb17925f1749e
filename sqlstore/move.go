package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Move takes a store into another database, of the other kind or of the same, while servers go on writing to it. Each Copy makes the target
// what one state of the source is, and Switch ends it. A process that is killed at any moment leaves the source a store or one that
// has moved, and a target that another Move goes on with; at no moment can both be written to. It belongs to one goroutine.
//
// What makes that so: the source is kept from being written to (fence) while the last rows are copied, it is marked as moved in the transaction that
// has kept it, and only after that does the target become a store.
type Move struct {
	from, to Options
	name     string // of the source
	target   *moveTarget
	seen     int64 // the revision of the source that the target has; 0: parts of some
	history  bool  // the source has an object history
}

// MoveProgress says how far a Copy has come.
type MoveProgress struct {
	Table     string
	Rows, Of  int64 // that were looked at, of those there are
	Different int64 // of them, were not in the target as they are in the source, and are now
	Revision  int64 // of the state that is copied
}

// Moved is what Switch has done.
type Moved struct {
	Revision int64         // at which the target begins
	Held     time.Duration // how long writes had to wait, or were refused
}

// ErrAlreadyMoved says that the source has moved to the target before, and that there is nothing to do.
var ErrAlreadyMoved = errors.New("the store has moved there already")

// OpenMove begins to move a store, or goes on where another process ended. Of the options, URL and Schema count. Errors: ErrAlreadyMoved; ErrNoTables and
// fs.ErrNotExist where there is no source; ErrNotOwner; ErrMoving where that is the target of another Move; ErrNotEmpty where the target has a store, or what was begun to be made of another source;
// that another process has the file; those of the database.
func OpenMove(ctx context.Context, from, to Options) (*Move, error) {
	name, history, err := checkMoveSource(ctx, &from, &to, func(*Source) error { return nil })
	if err != nil {
		return nil, err
	}
	target, err := openMoveTarget(ctx, &to, name)
	if err != nil {
		return nil, fmt.Errorf("fill the database: %w", err)
	}
	return &Move{from: from, to: to, name: name, target: target, seen: target.seen, history: history}, nil
}

// checkMoveSource looks at what moves, and where to, but not at what is there. It shows the source to somebody, and completes the options.
func checkMoveSource(ctx context.Context, from, to *Options, show func(*Source) error) (name string, history bool, err error) {
	source, err := OpenSource(ctx, *from)
	if err != nil {
		return "", false, err
	}
	state := source.State()
	history, err = source.HasHistory(ctx)
	if err == nil {
		err = show(source)
	}
	if err := errors.Join(err, source.Close()); err != nil {
		return "", false, err
	}
	if err := errors.Join(CheckURL(to.URL), CheckSchema(to.URL, to.Schema), from.complete(), to.complete()); err != nil {
		return "", false, err
	}
	name, err = from.place()
	if err != nil {
		return "", false, err
	}
	place, err := to.place()
	if err != nil {
		return "", false, err
	}
	if name == place {
		return "", false, fmt.Errorf("%s cannot move to where it is", name)
	}
	switch state.Moved {
	case "":
		err = checkFence(ctx, from)
	case place:
		if goesOn(ctx, *to, state) {
			err = ErrAlreadyMoved
		}
	default:
		err = fmt.Errorf("the store has moved to %s: move it on from there", state.Moved)
	}
	return name, history, err
}

// goesOn tells whether a database is a whole store that goes on, as far as the counter says, where another one has ended. To be not empty is not
// enough: it may have been put there since, of something else.
func goesOn(ctx context.Context, to Options, from SourceState) bool {
	target, err := OpenSource(ctx, to)
	if err != nil {
		return false // it is not there, or not whole: who fills it finds out
	}
	defer target.Close() //nolint:errcheck // it was only read
	return target.State().Revision >= from.Beyond
}

// Seen is the revision of the source that the target has, 0 while it has none.
func (m *Move) Seen() int64 { return m.seen }

// LeavesHistory tells whether the source has an object history. It stays there: the target begins a new one.
func (m *Move) LeavesHistory() bool { return m.history }

// Close lets go of both. What was copied stays, for another Move to go on with.
func (m *Move) Close() error { return m.target.close() }

const (
	// DefaultHold is how long writes are kept from the source at most, in one attempt to switch.
	DefaultHold = 900 * time.Millisecond
	// closeEnough is how long the last Copy before that may have taken: the next one has about as much to do as was written meanwhile.
	closeEnough = 200 * time.Millisecond
	// switchAttempts is how often it is tried to copy the rest within that time.
	switchAttempts = 10
)

// errHeldTooLong says that the rest could not be copied in the time that writes are held.
var errHeldTooLong = errors.New("what was written last could not be copied in the time that writes may be held")

// Switch copies what is left and makes the target the store, in place of the source, which takes no writes from then on. Writes wait for
// hold at most, or DefaultHold; where that is not enough, they go on, and it is tried again. Errors: errHeldTooLong; those of the databases. After an error the
// source is a store still, or one that has moved, and another Switch goes on.
func (m *Move) Switch(ctx context.Context, hold time.Duration, progress func(MoveProgress)) (moved Moved, err error) {
	if hold == 0 {
		hold = DefaultHold
	}
	if err := prepareFence(ctx, &m.from); err != nil {
		return moved, fmt.Errorf("prepare the source: %w", err)
	}
	for range switchAttempts {
		if err := m.comeClose(ctx, progress); err != nil {
			return moved, err
		}
		moved, err = m.trySwitch(ctx, hold, progress)
		if !errors.Is(err, errHeldTooLong) {
			return moved, err
		}
	}
	return moved, fmt.Errorf("%w of %v, in %d attempts: try it when less is written", errHeldTooLong, hold, switchAttempts)
}

// comeClose copies until little is left to be copied.
func (m *Move) comeClose(ctx context.Context, progress func(MoveProgress)) error {
	for range switchAttempts {
		started := time.Now()
		if err := m.Copy(ctx, progress); err != nil {
			return err
		}
		if time.Since(started) < closeEnough {
			return nil
		}
	}
	return nil
}

// trySwitch is one attempt.
func (m *Move) trySwitch(ctx context.Context, hold time.Duration, progress func(MoveProgress)) (moved Moved, err error) {
	place, err := m.to.place()
	if err != nil {
		return moved, err
	}
	f, err := raiseFence(ctx, &m.from, hold)
	if err != nil {
		return moved, fmt.Errorf("hold the writes to the source: %w", err)
	}
	started := time.Now()
	defer func() { err = errors.Join(err, f.lift()) }()
	bounded, cancel := context.WithTimeout(ctx, hold)
	defer cancel()
	beyond, err := m.copyState(bounded, progress)
	if err == nil {
		err = m.target.ready(bounded) // after the mark it would be too late to find out
	}
	if err == nil {
		err = f.last(bounded, place)
	}
	if err != nil {
		if bounded.Err() != nil && ctx.Err() == nil {
			err = errHeldTooLong
		}
		return moved, err
	}
	moved = Moved{Revision: beyond, Held: time.Since(started)}
	// Nothing is written to the source any more: the counter goes on from what was given, exactly.
	return moved, m.target.finish(ctx, beyond)
}

// Follow copies what is new in the source at intervals, until its context ends.
func (m *Move) Follow(ctx context.Context, every time.Duration, progress func(MoveProgress)) error {
	for {
		if err := m.Copy(ctx, progress); err != nil {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // it was to end
			}
			return err
		}
		next := time.NewTimer(every)
		select {
		case <-ctx.Done():
			next.Stop()
			return nil
		case <-next.C:
		}
	}
}
