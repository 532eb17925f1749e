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
	// logTo is the handler of the last LogTo. klog gets one handler for good, which delegates to it: klog's own logger must not be replaced while
	// another goroutine logs, such as another server in the process.
	logTo   atomic.Pointer[slog.Handler]
	logOnce sync.Once
)

// LogTo sends the log of upstream's packages to a logger from now on. It is safe for concurrent use; the first call comes before upstream's
// controllers start.
func LogTo(logger *slog.Logger) {
	h := logger.Handler()
	logTo.Store(&h)
	logOnce.Do(func() {
		klog.SetSlogLogger(slog.New(latestLog{}))
		say := utilruntime.ErrorHandlers[0]
		utilruntime.ErrorHandlers[0] = func(ctx context.Context, err error, what string, about ...any) {
			// Work that ends with its context, as a controller's when the server stops, is logged only at a higher verbosity. The check compares
			// texts because many callers wrap the error without keeping it.
			if err != nil && strings.HasSuffix(err.Error(), context.Canceled.Error()) {
				klog.FromContext(ctx).V(4).Info(what, append([]any{"err", err}, about...)...)
				return
			}
			// Another controller of the same name created the object first. This controller reads it again.
			if err != nil && strings.HasSuffix(err.Error(), `" already exists`) {
				klog.FromContext(ctx).Info(what, append([]any{"err", err}, about...)...)
				return
			}
			say(ctx, err, what, about...)
		}
	})
}

// latestLog delegates to the handler of logTo. Handlers derived from it keep the one of that moment.
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

// SetVerbosity sets the verbosity of upstream's packages: a number, of which 0 is the least.
func SetVerbosity(v string) error {
	var level klog.Level
	return level.Set(v)
}
