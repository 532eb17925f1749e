package controlplane

import (
	"context"
	"maps"
	"os"
	"time"

	"github.com/tidwall/gjson"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fieldmanager"
)

// reporter writes Events about the server's own actions, in the form of events.k8s.io (KEP-383). It is for one
// goroutine.
type reporter struct {
	plane          *Plane
	name, instance string
	// older: the Events have the form of the older API, with a source and a count, as those of kube-apiserver's controller of this name.
	older bool
	now   func() time.Time
	// said holds the recent reports, and due is when everything is to be checked again because of them.
	said map[report]*reported
	due  time.Time
	// holds: warn keeps its reports in held. Events are best effort, and a webhook may delay each of them: no start waits for that.
	holds bool
	held  []func(context.Context)
}

// reported is an Event that was written, and how often its cause was found since. A repetition turns the Event into a series: the second
// occurrence is written at once, later ones are counted, and written at intervals, and after a pause without occurrences.
type reported struct {
	event   *core.Event
	count   int32
	last    time.Time
	written int32     // the count that the Event has
	wrote   time.Time // when the Event was last written
}

// report identifies an Event: repeated occurrences on an object that has not changed share one.
type report struct {
	key             resources.Key
	revision        int64
	reason, message string
}

// The intervals are kube-apiserver's.
const (
	// checkAfter is the time until everything is checked again after something was reported.
	checkAfter = 3 * time.Minute
	// repeatAfter is how long repetitions are counted before another Event is written.
	repeatAfter = 6 * time.Minute
	// refreshAfter is the time after which a series that goes on is written again: an Event is removed an hour after its last write.
	refreshAfter = 30 * time.Minute
)

func (p *Plane) newReporter(name string) *reporter {
	hostname, _ := os.Hostname() // Events are written even if the host has no name
	return &reporter{plane: p, name: name, instance: name + "-" + hostname, now: time.Now, said: map[report]*reported{}}
}

// warn writes an Event about an object, or turns its recent Event into a series. Events are best effort: an error is logged,
// and the next occurrence writes what is missing. A nil reporter writes none.
func (r *reporter) warn(ctx context.Context, about *resources.Type, o *resources.Object, reason, action, message string) {
	if r == nil {
		return
	}
	if r.holds {
		r.held = append(r.held, func(ctx context.Context) { r.warn(ctx, about, o, reason, action, message) })
		return
	}
	said := report{o.Key, o.Revision, reason, message}
	if r.older {
		said.revision = 0 // kube-apiserver's controller reports once, whatever else changes in the object
	}
	if event, ok := r.said[said]; ok {
		event.count, event.last = event.count+1, r.now()
		if event.written == 1 && (event.count == 2 || event.last.Sub(event.wrote) >= checkAfter) {
			r.writeSeries(ctx, event)
		}
		return
	}
	r.plane.Logger.Warn(message, "about", o.Key.String())
	event := r.event(about, o, reason, action, message)
	if err := r.create(ctx, event); err != nil {
		r.plane.Logger.Info("an Event could not be written", "about", o.Key.String(), "error", err)
	}
	now := r.now()
	r.said[said] = &reported{event: event, count: 1, written: 1, last: now, wrote: now}
}

// heldFor is how long a turn of a chore writes reports that were held: a webhook may make each take ten seconds.
const heldFor = 10 * time.Second

// after makes the turns of a chore end with the reports that were held. As long as there are recent reports, everything is checked again at
// intervals, so that the Event about what is still wrong remains.
func (r *reporter) after(do func(context.Context, []*resources.Event) (time.Duration, error)) func(context.Context, []*resources.Event) (time.Duration, error) {
	return func(ctx context.Context, events []*resources.Event) (time.Duration, error) {
		return r.turn(ctx, events, do)
	}
}

func (r *reporter) turn(ctx context.Context, events []*resources.Event, do func(context.Context, []*resources.Event) (time.Duration, error)) (time.Duration, error) {
	r.holds = false
	if !r.due.IsZero() && !r.now().Before(r.due) {
		events = nil
	}
	if events == nil {
		r.sweep(ctx)
	}
	again, err := do(ctx, events)
	for began := time.Now(); len(r.held) > 0 && time.Since(began) < heldFor; {
		report := r.held[0]
		r.held = r.held[1:]
		report(ctx)
	}
	if len(r.held) > 0 {
		again = time.Nanosecond
	}
	return r.sooner(again, events == nil), err
}

// sooner is the time until the next turn of a chore which wants one after again, 0 for never. all: this turn has checked everything.
func (r *reporter) sooner(again time.Duration, all bool) time.Duration {
	if len(r.said) == 0 {
		r.due = time.Time{}
		return again
	}
	now := r.now()
	if all || r.due.IsZero() {
		r.due = now.Add(checkAfter)
	}
	if left := max(r.due.Sub(now), time.Nanosecond); again == 0 || left < again {
		again = left
	}
	return again
}

// sweep writes series that go on, for the first time in a while. It forgets reports without a recent occurrence, after it has written the
// counts that are not written yet.
func (r *reporter) sweep(ctx context.Context) {
	now := r.now()
	maps.DeleteFunc(r.said, func(_ report, event *reported) bool {
		over := now.Sub(event.last) >= repeatAfter
		if event.count > event.written && (over || now.Sub(event.wrote) >= refreshAfter) {
			r.writeSeries(ctx, event)
		}
		return over
	})
}

// writeSeries writes the count of occurrences into an Event, or creates the Event again that is gone.
func (r *reporter) writeSeries(ctx context.Context, event *reported) {
	event.wrote = r.now()
	if r.older {
		event.event.Count, event.event.LastTimestamp = event.count, metav1.NewTime(event.last)
	} else {
		event.event.Series = &core.EventSeries{Count: event.count, LastObservedTime: metav1.NewMicroTime(event.last)}
	}
	err := r.update(ctx, event.event)
	if apierrors.IsNotFound(err) {
		err = r.create(ctx, event.event)
	}
	if err != nil {
		r.plane.Logger.Info("an event was not made a series", "event", event.event.Namespace+"/"+event.event.Name, "error", err)
		return
	}
	event.written = event.count
}

// update writes the series of an Event.
func (r *reporter) update(ctx context.Context, event *core.Event) error {
	t, manager, err := r.events()
	if t == nil || err != nil {
		return err
	}
	u := resources.UpdateRequest{Type: t, Name: event.Name}
	u.Change = func(_ context.Context, existing runtime.Object, stored *resources.Object) (runtime.Object, error) {
		if stored == nil { // an update may create Events
			return nil, apierrors.NewNotFound(t.GroupResource, event.Name)
		}
		obj := existing.DeepCopyObject().(*core.Event)
		obj.Series, obj.Count, obj.LastTimestamp = event.Series, event.Count, event.LastTimestamp
		return manager.Update(existing, obj, resources.ServerManagerName), nil
	}
	_, _, err = r.plane.Pipeline.Update(resources.APIServer.Request(ctx, "update", t, t.KeyOf(event.Namespace, event.Name)), &u)
	return err
}

// create stores an Event.
func (r *reporter) create(ctx context.Context, event *core.Event) error {
	t, manager, err := r.events()
	if t == nil || err != nil {
		return err
	}
	c := resources.CreateRequest{Type: t, Object: manager.Create(event.DeepCopy(), resources.ServerManagerName)}
	_, err = r.plane.Pipeline.Create(resources.APIServer.Request(ctx, "create", t, t.KeyOf(event.Namespace, event.Name)), &c)
	return err
}

// events returns the type of Events, nil where they are not served, and the manager of their fields.
func (r *reporter) events() (*resources.Type, *fieldmanager.Manager, error) {
	t, ok := r.plane.Registry.Catalog().Type("events")
	if !ok {
		return nil, nil, nil
	}
	kind := eventsv1.SchemeGroupVersion.WithKind(t.Kind)
	if r.older {
		kind = t.StorageKind()
	}
	manager, err := t.ServerManagerOf(kind, "")
	return t, manager, err
}

// event makes an Event about an object.
func (r *reporter) event(about *resources.Type, o *resources.Object, reason, action, message string) *core.Event {
	now, namespace := time.Now(), o.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	event := &core.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: util.GenerateEventName(o.Name, now.UnixNano())},
		InvolvedObject: core.ObjectReference{Kind: about.Kind, APIVersion: about.StorageVersion.String(), Namespace: o.Namespace, Name: o.Name,
			UID: types.UID(gjson.GetBytes(o.Data, "metadata.uid").Str), ResourceVersion: resources.FormatRevision(o.Revision)},
		Type: corev1.EventTypeWarning, Reason: reason, Action: action, Message: message, ReportingController: r.name,
	}
	if r.older {
		event.Source.Component, event.Count = r.name, 1
		event.FirstTimestamp, event.LastTimestamp = metav1.NewTime(now), metav1.NewTime(now)
		return event
	}
	event.EventTime, event.ReportingInstance = metav1.NewMicroTime(now), r.instance
	return event
}
