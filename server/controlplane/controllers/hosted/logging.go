package hosted

import (
	"context"
	"log/slog"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// untilEnd is a log in which a controller says nothing once its time has ended: that what it was doing then failed is no news. Nor is it, but for those who want
// to know more, that somebody else was quicker to write an object: it is looked at again.
type untilEnd struct {
	slog.Handler
	ended <-chan struct{}
}

// Handle implements slog.Handler. Errors come here without Enabled being asked.
func (h untilEnd) Handle(ctx context.Context, r slog.Record) error {
	select {
	case <-h.ended:
		return nil
	default:
	}
	if isOfConflicts(&r) {
		if r.Level = slog.LevelInfo; !h.Enabled(ctx, r.Level) {
			return nil
		}
	}
	return h.Handler.Handle(ctx, r)
}

// isOfConflicts reports whether a record has errors of which all, where they are gathered in one, say that somebody else has written the object.
func isOfConflicts(r *slog.Record) (found bool) {
	r.Attrs(func(a slog.Attr) bool {
		err, ok := a.Value.Any().(error)
		found = ok && utilerrors.FilterOut(err, apierrors.IsConflict) == nil
		return !found
	})
	return found
}

// WithAttrs implements slog.Handler.
func (h untilEnd) WithAttrs(attrs []slog.Attr) slog.Handler {
	return untilEnd{h.Handler.WithAttrs(attrs), h.ended}
}

// WithGroup implements slog.Handler.
func (h untilEnd) WithGroup(name string) slog.Handler {
	return untilEnd{h.Handler.WithGroup(name), h.ended}
}
