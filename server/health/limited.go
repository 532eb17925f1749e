package health

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// probeTimeout is kube-apiserver's default of --etcd-healthcheck-timeout and --etcd-readycheck-timeout.
	probeTimeout = 2 * time.Second
	// probePause is the time between two probes: half of their timeout, as in kube-apiserver. It begins when the first has
	// ended, so that one request for several checks waits for one probe.
	probePause = probeTimeout / 2
)

// limited runs a probe for all checks and requests that need its result. Health checks are exempt from the limits on
// requests, so their number must not determine that of the probes.
type limited struct {
	name    string
	probe   func(context.Context) error
	clock   clock.PassiveClock
	timeout time.Duration
	logger  *slog.Logger

	mu   sync.Mutex
	last *probed
	said string // the error that was logged last; empty: a probe has succeeded since
}

// probed is a probe that is running or has ended. limited.mu guards ended and err.
type probed struct {
	ctx    context.Context // ends when there is a result
	cancel context.CancelFunc
	ended  time.Time // zero: it is running
	err    error     // while it is running: that it has not ended in time
}

// Limited returns a check that shares the result of a probe. A probe begins when a result is asked for and the last
// probe ended at least a second ago. It gets two seconds; then the check fails, also while the probe does not heed its
// context, as on a disk that hangs. The check logs its failures itself, because clients may not wait as long.
func Limited(name string, probe func(context.Context) error, c clock.PassiveClock, logger *slog.Logger) Check {
	l := &limited{name: name, probe: probe, clock: c, timeout: probeTimeout, logger: logger}
	return Check{Name: name, Run: l.check, logged: true}
}

func (l *limited) check(r *http.Request) error {
	l.mu.Lock()
	p := l.last
	if p == nil || !p.ended.IsZero() && l.clock.Since(p.ended) >= probePause {
		p = l.begin(context.WithoutCancel(r.Context()))
	}
	l.mu.Unlock()
	select {
	case <-p.ctx.Done():
	case <-r.Context().Done():
		return r.Context().Err()
	}
	l.mu.Lock()
	err := p.err
	l.mu.Unlock()
	return err
}

// begin begins a probe. It is called with mu.
func (l *limited) begin(ctx context.Context) *probed {
	p := &probed{err: fmt.Errorf("no answer within %v", l.timeout)}
	p.ctx, p.cancel = context.WithTimeout(ctx, l.timeout)
	l.last = p
	context.AfterFunc(p.ctx, func() { l.late(p) })
	go l.run(p)
	return p
}

// late logs that a probe has not ended in time, unless the log has a failure already: the probe may yet end with another
// error, and the next probe as well, so that the two would be logged in turn.
func (l *limited) late(p *probed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.ended.IsZero() && l.said == "" {
		l.note(p)
	}
}

func (l *limited) run(p *probed) {
	defer p.cancel()
	err := l.try(p.ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	p.ended = l.clock.Now()
	if !errors.Is(err, context.DeadlineExceeded) || p.ctx.Err() == nil {
		p.err = err
	}
	l.note(p)
}

// try runs the probe. A panic fails the check, and not the server.
func (l *limited) try(ctx context.Context) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			l.logger.Error("panic", "check", l.name, "panic", cause, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	return l.probe(ctx)
}

// note logs the result of a probe if it is a failure that the log does not have yet. It is called with mu.
func (l *limited) note(p *probed) {
	before := l.said
	if l.said = ""; p.err != nil {
		l.said = p.err.Error()
	}
	if l.said != "" && l.said != before {
		logFailure(p.ctx, l.logger, l.name, l.said)
	}
}
