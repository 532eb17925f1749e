package hosted

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// untilEnd is a log handler that drops a controller's records once its run has ended, because failures are expected then. It logs a conflict
// with another writer at info, because the controller examines the object again.
type untilEnd struct {
	slog.Handler
	ended <-chan struct{}
}

// Handle implements slog.Handler. Errors come here without a call of Enabled.
func (h untilEnd) Handle(ctx context.Context, r slog.Record) error {
	select {
	case <-h.ended:
		return nil
	default:
	}
	if r.Level > slog.LevelInfo && isOfConflicts(&r) {
		if r.Level = slog.LevelInfo; !h.Enabled(ctx, r.Level) {
			return nil
		}
	}
	return h.Handler.Handle(ctx, r)
}

// isOfConflicts reports whether a record has an error that is a conflict, or an aggregate of conflicts only.
func isOfConflicts(r *slog.Record) (found bool) {
	r.Attrs(func(a slog.Attr) bool {
		err, ok := a.Value.Any().(error)
		found = ok && utilerrors.FilterOut(err, isConflict) == nil
		return !found
	})
	return found
}

// isConflict tells whether an error is a conflict that no other error was joined to.
func isConflict(err error) bool {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return !slices.ContainsFunc(joined.Unwrap(), func(err error) bool { return !isConflict(err) })
	}
	return apierrors.IsConflict(err)
}

// WithAttrs implements slog.Handler.
func (h untilEnd) WithAttrs(attrs []slog.Attr) slog.Handler {
	return untilEnd{h.Handler.WithAttrs(attrs), h.ended}
}

// WithGroup implements slog.Handler.
func (h untilEnd) WithGroup(name string) slog.Handler {
	return untilEnd{h.Handler.WithGroup(name), h.ended}
}
