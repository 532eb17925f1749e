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

// isRefused tells whether an error says that an object cannot be what it is to be, because of what users made: a webhook, a policy, or the
// object itself, which is immutable, for one. The API is served all the same, for otherwise nobody could put that right.
func isRefused(err error) bool {
	var refused apierrors.APIStatus
	return errors.As(err, &refused) && !errors.Is(err, resources.ErrNotRecorded) // which concerns all of them
}

// recordedIn is how long a start waits for an audit that takes no event of what it writes: kube-apiserver ends then, too.
const recordedIn = time.Minute

// untilRecorded does what a start has to write, and tries again for recordedIn while the audit does not let it begin. It is
// said once, and not for each object.
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

// refusals are what was refused of several things that do not depend on each other.
type refusals struct {
	mu   sync.Mutex
	errs []error
}

// pass notes a refusal, and returns any other error.
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

// group does several things at once, of which a refused one does not keep the others from being done.
type group struct {
	work    *errgroup.Group
	refused *refusals
}

func (g group) Go(f func() error) {
	g.work.Go(func() error { return g.refused.pass(f()) })
}

// atOnce does what all functions put into a group, and notes what is refused.
func atOnce(ctx context.Context, refused *refusals, functions ...func(context.Context, group) error) error {
	work, gctx := errgroup.WithContext(ctx)
	for _, f := range functions {
		if err := refused.pass(f(gctx, group{work, refused})); err != nil {
			if first := work.Wait(); first != nil {
				return first // by which gctx has ended, perhaps
			}
			return err
		}
	}
	return work.Wait()
}
