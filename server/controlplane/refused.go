package controlplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/rowlock/rowlock/resources"
)

// isRefused tells whether an error means that a write is refused because of what users have made: a webhook, a policy, or the immutable
// object itself, for example. The API is served nevertheless; otherwise nobody could remove the cause.
func isRefused(err error) bool {
	var refused apierrors.APIStatus
	return errors.As(err, &refused) && !errors.Is(err, resources.ErrNotRecorded) // an audit failure concerns all writes
}

// recordedIn is how long a start waits for an audit that accepts no events of its writes. kube-apiserver ends then, too.
const recordedIn = time.Minute

// untilRecorded runs the writes of a start, and retries them for recordedIn while the audit does not let them begin. It
// logs this once, and not for each object.
func untilRecorded(ctx context.Context, logger *slog.Logger, do func() error) error {
	for began, said := time.Now(), false; ; {
		err := do()
		if !errors.Is(err, resources.ErrNotRecorded) {
			return err
		}
		left := recordedIn - time.Since(began)
		if left <= 0 {
			return fmt.Errorf("the audit has taken no event for %v: %w", recordedIn, err)
		}
		if !said {
			logger.Error("the audit back end takes no events of the writes at the start; the start fails if this lasts", "for", recordedIn, "error", err)
			said = true
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(left, time.Second)):
		}
	}
}

// unlessRefused logs a refusal, and returns any other error.
func (p *Plane) unlessRefused(err error) error {
	if isRefused(err) {
		p.Logger.Error("an object that the server needs was refused", "error", err)
		return nil
	}
	return err
}

// refusals collects the refused ones of several independent writes.
type refusals struct {
	mu   sync.Mutex
	errs []error
}

// pass records a refusal, and returns any other error.
func (r *refusals) pass(err error) error {
	if !isRefused(err) {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
	return nil
}

// err is nil when nothing was refused.
func (r *refusals) err() error {
	if n := len(r.errs); n > 1 {
		return fmt.Errorf("%w (and %d more)", r.errs[0], n-1)
	}
	return errors.Join(r.errs...)
}

// group runs several writes at once; a refused one does not stop the others.
type group struct {
	work    *errgroup.Group
	refused *refusals
}

func (g group) Go(f func() error) {
	g.work.Go(func() error { return g.refused.pass(f()) })
}

// atOnce runs all work that the functions add to a group, and records refusals.
func atOnce(ctx context.Context, refused *refusals, functions ...func(context.Context, group) error) error {
	work, gctx := errgroup.WithContext(ctx)
	for _, f := range functions {
		if err := refused.pass(f(gctx, group{work, refused})); err != nil {
			if first := work.Wait(); first != nil {
				return first // this error may have ended gctx
			}
			return err
		}
	}
	return work.Wait()
}
