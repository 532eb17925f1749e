package upstream

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/workqueue" // the metrics
)

// unfinished returns the metric of a queue's items that are in process.
func unfinished(t *testing.T, name string) float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "workqueue_unfinished_work_seconds" && m.GetLabel()[0].GetValue() == name {
				return m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("no metric of %s", name)
	return 0
}

// TestCalmQueue checks that a replaced queue is the only one that runs, delivers items, those of the old queue, at once, after a delay and by its limiter of retries,
// and updates its metrics every ten seconds, where upstream's does so twice a second.
func TestCalmQueue(t *testing.T) {
	type controller struct {
		queue   workqueue.TypedRateLimitingInterface[string]
		numbers struct {
			queue any
		}
		plain *workqueue.Typed[string]
	}
	name := fmt.Sprintf("calm-%d", rand.Int()) // of this run: the registry keeps the metrics
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](3*time.Second, time.Minute)
	synctest.Test(t, func(t *testing.T) {
		c := &controller{queue: workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[string]{Name: name}),
			plain: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "plain"})}
		old := c.plain
		c.plain.Add("before")
		c.queue.Add("before")
		CalmQueue(c, name, "queue")
		CalmQueue(c, "plain", "plain")
		defer c.queue.ShutDown()
		defer c.plain.ShutDown()
		if !old.ShuttingDown() || c.plain.ShuttingDown() || c.queue.ShuttingDown() {
			t.Error("the wrong queues run")
		}
		if item, _ := c.plain.Get(); item != "before" {
			t.Errorf("got %q", item)
		}
		began := time.Now()
		next := func(want string, after time.Duration) {
			t.Helper()
			if item, _ := c.queue.Get(); item != want || time.Since(began) != after {
				t.Errorf("got %q after %v, want %q after %v", item, time.Since(began), want, after)
			}
		}
		next("before", 0)
		c.queue.Done("before")
		c.queue.AddAfter("late", 5*time.Second)
		c.queue.AddRateLimited("again")
		c.queue.Add("now")
		next("now", 0)
		next("again", 3*time.Second)
		next("late", 5*time.Second)
		if c.queue.NumRequeues("again") != 1 {
			t.Error("the limiter was lost")
		}
		time.Sleep(4500 * time.Millisecond)
		if got := unfinished(t, name); got != 0 {
			t.Errorf("the metric is %v after nine seconds and a half", got)
		}
		time.Sleep(time.Second)
		if got := unfinished(t, name); got < 10 {
			t.Errorf("the metric is %v after ten seconds and a half", got)
		}
	})
	for _, fields := range [][]string{{"gone"}, {"numbers", "queue"}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%v is taken for a queue", fields)
				}
			}()
			c := &controller{}
			c.numbers.queue = 1
			CalmQueue(c, "calm", fields...)
		}()
	}
}
