package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Move moves a store into another database, of the other kind or of the same, while servers go on writing to it. Each
// Copy makes the target equal to one state of the source, and Switch ends the move. A process that is killed at any
// moment leaves the source as a store or as one that has moved, and a target that another Move can continue with; at no
// moment can both be written to. It belongs to one goroutine.
//
// The reason: writes to the source are blocked (fence) while the last rows are copied, the source is marked as moved in
// the transaction that blocks them, and only after that does the target become a store.
type Move struct {
	from, to Options
	name     string // of the source
	target   *moveTarget
	seen     int64 // the revision of the source that the target has; 0: parts of several states
	history  bool  // the source has an object history
}

// MoveProgress is the progress of a Copy.
type MoveProgress struct {
	Table     string
	Rows, Of  int64 // rows done so far, of the table's rows or, if the log is copied, of the changed ones
	Different int64 // rows that differed in the target, and were copied or removed
	Revision  int64 // of the state that is copied
}

// Moved is the result of Switch.
type Moved struct {
	Revision int64         // at which the target begins
	Held     time.Duration // how long writes had to wait, or were refused
}

// ErrAlreadyMoved says that the source has moved to the target before, so there is nothing to do.
var ErrAlreadyMoved = errors.New("the store has moved there already")

// OpenMove begins to move a store, or continues where another process ended. Of the options, URL and Schema are used.
// Errors: ErrAlreadyMoved; ErrNoTables and fs.ErrNotExist if there is no source; ErrNotOwner; ErrMoving if the source
// is the target of another Move; ErrNotEmpty if the target has a store, or was begun to be filled from another source;
// an error if another process has the file; those of the database.
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

// checkMoveSource checks the source and the place of the target, but not what the target contains. It calls show with
// the source, and completes the options.
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

// goesOn reports whether a database is a complete store whose counter continues that of the source. It is not enough
// that it is not empty: another store may have been put there since.
func goesOn(ctx context.Context, to Options, from SourceState) bool {
	target, err := OpenSource(ctx, to)
	if err != nil {
		return false // it does not exist, or is incomplete: filling it finds out
	}
	defer target.Close() //nolint:errcheck // it was only read
	return target.State().Revision >= from.Beyond
}

// Seen is the revision of the source that the target has; 0 while it has none.
func (m *Move) Seen() int64 { return m.seen }

// LeavesHistory reports whether the source has an object history. It stays there: the target begins a new one.
func (m *Move) LeavesHistory() bool { return m.history }

// Close closes both databases. The copied rows stay, for another Move to continue with.
func (m *Move) Close() error { return m.target.close() }

const (
	// DefaultHold is how long writes to the source are held at most in one attempt to switch.
	DefaultHold = 900 * time.Millisecond
	// closeEnough is how long the last Copy before that may take: the next one has about as much to copy as was written
	// meanwhile.
	closeEnough = 200 * time.Millisecond
	// switchAttempts is how often Switch tries to copy the rest within that time.
	switchAttempts = 10
)

// errHeldTooLong says that the rest could not be copied in the time that writes are held.
var errHeldTooLong = errors.New("what was written last could not be copied in the time that writes may be held")

// Switch copies the rest and makes the target the store, in place of the source, which takes no writes from then on.
// Writes wait for at most hold, or DefaultHold; if that is not enough, they go on, and Switch tries again. Errors:
// errHeldTooLong; those of the databases. After an error the source is still a store, or has moved, and another Switch
// continues.
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

// comeClose copies until little is left to copy.
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

// trySwitch is one attempt to switch.
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
		err = m.target.ready(bounded) // after the mark it would be too late for these checks
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
	// The source takes no more writes: the counter continues exactly after the last assigned revision.
	return moved, m.target.finish(ctx, beyond)
}

// Follow copies new changes of the source at intervals, until its context ends.
func (m *Move) Follow(ctx context.Context, every time.Duration, progress func(MoveProgress)) error {
	for {
		if err := m.Copy(ctx, progress); err != nil {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // the caller asked it to end
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
