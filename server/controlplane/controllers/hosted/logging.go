package hosted

import (
	"context"
	"log/slog"
)

// untilEnd is a log in which a controller says nothing once its time has ended: that what it was doing then failed is no news.
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
		return h.Handler.Handle(ctx, r)
	}
}

// WithAttrs implements slog.Handler.
func (h untilEnd) WithAttrs(attrs []slog.Attr) slog.Handler {
	return untilEnd{h.Handler.WithAttrs(attrs), h.ended}
}

// WithGroup implements slog.Handler.
func (h untilEnd) WithGroup(name string) slog.Handler {
	return untilEnd{h.Handler.WithGroup(name), h.ended}
}
