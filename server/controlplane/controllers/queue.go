package controllers

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
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

	mu sync.Mutex
	// waiting has the items to be added later, each once. Otherwise an item that keeps failing would have more timers
	// with each failure.
	waiting map[T]*delayed
}

// delayed is the delay of an item.
type delayed struct {
	until time.Time
	timer *time.Timer
}

func newQueue[T comparable](logger *slog.Logger) *queue[T] {
	return &queue[T]{Typed: workqueue.NewTyped[T](), logger: logger, waiting: map[T]*delayed{},
		limiter: workqueue.NewTypedItemExponentialFailureRateLimiter[T](firstRetry, lastRetry)}
}

// addAfter adds an item after a delay, or earlier if an earlier addition is due. An item that a worker takes meanwhile no
// longer waits: the worker reads the present state.
func (q *queue[T]) addAfter(item T, d time.Duration) {
	until := time.Now().Add(d)
	q.mu.Lock()
	defer q.mu.Unlock()
	old := q.waiting[item]
	if old != nil && !until.Before(old.until) {
		return
	}
	if old != nil {
		old.timer.Stop()
	}
	w := &delayed{until: until}
	q.waiting[item] = w
	w.timer = time.AfterFunc(d, func() {
		q.mu.Lock()
		due := q.waiting[item] == w
		if due {
			delete(q.waiting, item)
		}
		q.mu.Unlock()
		if due {
			q.Add(item) // after the queue is shut down this does nothing
		}
	})
}

// taken ends the delay of an item that a worker has taken.
func (q *queue[T]) taken(item T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w := q.waiting[item]; w != nil {
		w.timer.Stop()
		delete(q.waiting, item)
	}
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
	q.taken(item)
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
