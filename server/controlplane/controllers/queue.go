package controllers

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/util/workqueue"
)

// The delay of a retry doubles from firstRetry to the last value, as in kube-controller-manager's namespace controller.
const (
	firstRetry = 5 * time.Millisecond
	lastRetry  = time.Minute
)

// queue holds work items, each once and for one worker at a time. It is client-go's queue, with delays by timers that
// exist only while an item waits: client-go's own delaying queue wakes every ten seconds even when it is empty.
type queue[T comparable] struct {
	*workqueue.Typed[T]
	limiter workqueue.TypedRateLimiter[T]
	logger  *slog.Logger
}

func newQueue[T comparable](logger *slog.Logger) *queue[T] {
	return &queue[T]{Typed: workqueue.NewTyped[T](), logger: logger,
		limiter: workqueue.NewTypedItemExponentialFailureRateLimiter[T](firstRetry, lastRetry)}
}

// addAfter adds an item after a delay. The item may be added earlier meanwhile.
func (q *queue[T]) addAfter(item T, d time.Duration) {
	time.AfterFunc(d, func() { q.Add(item) }) // after the queue is shut down this does nothing
}

// work handles the items with a number of workers until ctx ends. It retries items that fail.
func (q *queue[T]) work(ctx context.Context, workers int, do func(context.Context, T) error) {
	stop := context.AfterFunc(ctx, q.ShutDown)
	defer stop()
	var all errgroup.Group
	for range workers {
		all.Go(func() error {
			for {
				item, ended := q.Get()
				if ended {
					return nil
				}
				q.one(ctx, item, do)
			}
		})
	}
	_ = all.Wait() // the workers have no errors
}

func (q *queue[T]) one(ctx context.Context, item T, do func(context.Context, T) error) {
	defer q.Done(item)
	if ctx.Err() != nil {
		return
	}
	err := safely(ctx, item, do)
	if err == nil || ctx.Err() != nil {
		q.limiter.Forget(item)
		return
	}
	wait := q.limiter.When(item)
	q.logger.Warn("controller failed and will try again", "item", item, "wait", wait, "error", err)
	q.addAfter(item, wait)
}

// safely turns a panic into an error: an object that the code does not foresee must not end the server.
func safely[T any](ctx context.Context, item T, do func(context.Context, T) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return do(ctx, item)
}
