package upstream

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

var (
	// logTo is the handler of the logger that LogTo was given last. klog is given one handler for good, which hands on to it: klog's own logger
	// may not be replaced while somebody logs, as another server in the process does.
	logTo   atomic.Pointer[slog.Handler]
	logOnce sync.Once
)

// LogTo sends to a logger what upstream's packages say, from now on. It is safe for concurrent use; the first call comes before upstream's controllers begin.
func LogTo(logger *slog.Logger) {
	h := logger.Handler()
	logTo.Store(&h)
	logOnce.Do(func() {
		klog.SetSlogLogger(slog.New(latestLog{}))
		say := utilruntime.ErrorHandlers[0]
		utilruntime.ErrorHandlers[0] = func(ctx context.Context, err error, what string, about ...any) {
			// What somebody was at when his context ended, as a controller when the server is told to stop, is for those who look for it: many make
			// another error of it, of which nothing but its words is left.
			if err != nil && strings.HasSuffix(err.Error(), context.Canceled.Error()) {
				klog.FromContext(ctx).V(4).Info(what, append([]any{"err", err}, about...)...)
				return
			}
			say(ctx, err, what, about...)
		}
	})
}

// latestLog hands on to the handler of logTo. What is derived of it stays with the one of that moment.
type latestLog struct{}

// Enabled implements slog.Handler.
func (latestLog) Enabled(ctx context.Context, l slog.Level) bool {
	return (*logTo.Load()).Enabled(ctx, l)
}

// Handle implements slog.Handler.
func (latestLog) Handle(ctx context.Context, r slog.Record) error {
	if !notTaken.pass(&r) {
		return nil
	}
	return (*logTo.Load()).Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (latestLog) WithAttrs(attrs []slog.Attr) slog.Handler { return (*logTo.Load()).WithAttrs(attrs) }

// WithGroup implements slog.Handler.
func (latestLog) WithGroup(name string) slog.Handler { return (*logTo.Load()).WithGroup(name) }

// SetVerbosity sets up to which level upstream's packages log: a number, 0 for what always is.
func SetVerbosity(v string) error {
	var level klog.Level
	return level.Set(v)
}
