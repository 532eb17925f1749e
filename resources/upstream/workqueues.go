package upstream

import (
	"fmt"
	"reflect"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
)

// queueMetricsPeriod is how often a queue of CalmQueue updates the two metrics that grow without events: workqueue_unfinished_work_seconds
// and workqueue_longest_running_processor_seconds.
const queueMetricsPeriod = 10 * time.Second

// CalmQueue replaces the work queue of one of upstream's controllers by one with the same name, the same items that are due, and the same
// limiter of retries. client-go's queues wake twice a second to update metrics, which for five queues is most of what an idle server does.
// The fields lead from the controller, a pointer, to its queue. The controller has not started yet, and its event handlers are not called
// meanwhile. CalmQueue panics where upstream has changed.
func CalmQueue(controller any, name string, fields ...string) {
	v := reflect.ValueOf(controller)
	for _, field := range fields {
		v = fieldOf(v, field)
	}
	switch queue := reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Interface().(type) {
	case **workqueue.Typed[string]:
		old := *queue
		*queue = workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: name, Clock: slowTicks{}})
		move(old, *queue)
	case *workqueue.TypedRateLimitingInterface[string]:
		calm(*queue, name)
	case *workqueue.TypedRateLimitingInterface[int]:
		calm(*queue, name)
	default:
		panic(fmt.Sprintf("the queue %s is a %T", name, queue))
	}
}

// calm replaces the part of a queue that does not limit retries.
func calm[T comparable](limiting workqueue.TypedRateLimitingInterface[T], name string) {
	v := fieldOf(reflect.ValueOf(&limiting), "TypedDelayingInterface")
	delaying := reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Interface().(*workqueue.TypedDelayingInterface[T])
	old := *delaying
	*delaying = workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[T]{Name: name, Clock: slowTicks{}})
	move[T](old, *delaying)
}

// move ends a queue, and adds its items to another one.
func move[T comparable](from, to workqueue.TypedInterface[T]) {
	from.ShutDown()
	for {
		item, ended := from.Get()
		if ended {
			return
		}
		from.Done(item)
		to.Add(item)
	}
}

// fieldOf returns the field of the struct to which a value leads by pointers and interfaces.
func fieldOf(v reflect.Value, name string) reflect.Value {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	field := v.FieldByName(name)
	if !field.IsValid() {
		panic(fmt.Sprintf("%s has no field %s", v.Type(), name))
	}
	return field
}

// slowTicks is the system's clock, whose tickers tick at most once in queueMetricsPeriod. Delays use its timers.
type slowTicks struct{ clock.RealClock }

// NewTicker implements clock.WithTicker.
func (c slowTicks) NewTicker(d time.Duration) clock.Ticker {
	return c.RealClock.NewTicker(max(d, queueMetricsPeriod))
}
