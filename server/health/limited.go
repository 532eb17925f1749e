package health

import (
	"context"
	"net/http"
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
	probe   func(context.Context) error
	clock   clock.PassiveClock
	timeout time.Duration

	mu   sync.Mutex
	last *probed
}

// probed is a probe that is running or has ended. limited.mu guards ended and err.
type probed struct {
	ctx    context.Context // ends when there is a result
	cancel context.CancelFunc
	ended  time.Time // zero: it is running
	err    error     // while it is running: that it has not ended in time
}

// Limited returns the function of a check that shares the result of a probe. A probe begins when a result is asked for
// and the last probe ended at least a second ago. It gets two seconds; then the check fails, also while the probe does
// not heed its context, as on a disk that hangs.
func Limited(probe func(context.Context) error, c clock.PassiveClock) func(*http.Request) error {
	return (&limited{probe: probe, clock: c, timeout: probeTimeout}).check
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
	p := &probed{err: context.DeadlineExceeded}
	p.ctx, p.cancel = context.WithTimeout(ctx, l.timeout)
	l.last = p
	go l.run(p)
	return p
}

func (l *limited) run(p *probed) {
	err := l.probe(p.ctx)
	l.mu.Lock()
	p.ended, p.err = l.clock.Now(), err
	l.mu.Unlock()
	p.cancel()
}
