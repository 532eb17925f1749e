package controlplane

import (
	"context"
	"maps"
	"os"
	"time"

	"github.com/tidwall/gjson"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources"
)

// reporter writes Events about the server's own actions, in the form of events.k8s.io (KEP-383). It is for one
// goroutine.
type reporter struct {
	plane          *Plane
	name, instance string
	now            func() time.Time
	// said holds the recent reports; swept is when old ones were last removed.
	said  map[report]*reported
	swept time.Time
	// holds: warn keeps its reports in held. Events are best effort, and a webhook may delay each of them: no start waits for that.
	holds bool
	held  []func(context.Context)
}

// reported is an Event that was written, and how often its cause was found since. A repetition turns the Event into a series:
// the second occurrence is written at once, later ones are counted, and written after a pause without occurrences.
type reported struct {
	namespace, name string // of the Event
	count           int32
	last            time.Time
	written         int32 // the count that the Event has
}

// report identifies an Event: repeated occurrences on an object that has not changed share one.
type report struct {
	key             resources.Key
	revision        int64
	reason, message string
}

// repeatAfter is how long kube-apiserver counts repetitions before it writes another Event.
const repeatAfter = 6 * time.Minute

func (p *Plane) newReporter(name string) *reporter {
	hostname, _ := os.Hostname() // Events are written even if the host has no name
	return &reporter{plane: p, name: name, instance: name + "-" + hostname, now: time.Now, said: map[report]*reported{}}
}

// warn writes an Event about an object, or turns its recent Event into a series. Events are best effort: an error is logged,
// and the write is not retried.
func (r *reporter) warn(ctx context.Context, about *resources.Type, o *resources.Object, reason, action, message string) {
	if r.holds {
		r.held = append(r.held, func(ctx context.Context) { r.warn(ctx, about, o, reason, action, message) })
		return
	}
	r.finishSeries(ctx)
	said := report{o.Key, o.Revision, reason, message}
	if event, ok := r.said[said]; ok {
		event.count, event.last = event.count+1, r.now()
		if event.count == 2 {
			r.writeSeries(ctx, event)
		}
		return
	}
	r.plane.Logger.Warn(message, "about", o.Key.String())
	event, err := r.write(ctx, about, o, reason, action, message)
	if err != nil {
		r.plane.Logger.Info("an Event could not be written", "about", o.Key.String(), "error", err)
	}
	event.count, event.written, event.last = 1, 1, r.now()
	r.said[said] = event
}

// heldFor is how long a turn of a chore writes reports that were held: a webhook may make each take ten seconds.
const heldFor = 10 * time.Second

// after makes the turns of a chore end with the reports that were held.
func (r *reporter) after(do func(context.Context, []*resources.Event) (time.Duration, error)) func(context.Context, []*resources.Event) (time.Duration, error) {
	return func(ctx context.Context, events []*resources.Event) (time.Duration, error) {
		r.holds = false
		again, err := do(ctx, events)
		for began := time.Now(); len(r.held) > 0 && time.Since(began) < heldFor; {
			report := r.held[0]
			r.held = r.held[1:]
			report(ctx)
		}
		if len(r.held) > 0 {
			again = time.Nanosecond
		}
		return again, err
	}
}

// finishSeries forgets reports without a recent occurrence, after it has written the counts that are not written yet.
func (r *reporter) finishSeries(ctx context.Context) {
	now := r.now()
	if now.Sub(r.swept) < repeatAfter {
		return
	}
	r.swept = now
	maps.DeleteFunc(r.said, func(_ report, event *reported) bool {
		if now.Sub(event.last) < repeatAfter {
			return false
		}
		if event.count > event.written {
			r.writeSeries(ctx, event)
		}
		return true
	})
}

// writeSeries writes the count of occurrences into an Event, unless the Event is gone.
func (r *reporter) writeSeries(ctx context.Context, event *reported) {
	t, ok := r.plane.Registry.Catalog().Type("events")
	if !ok || event.name == "" {
		return
	}
	manager, err := t.ServerManagerOf(eventsv1.SchemeGroupVersion.WithKind(t.Kind), "")
	if err == nil {
		u := resources.UpdateRequest{Type: t, Name: event.name}
		u.Change = func(_ context.Context, existing runtime.Object, _ *resources.Object) (runtime.Object, error) {
			obj := existing.DeepCopyObject().(*core.Event)
			obj.Series = &core.EventSeries{Count: event.count, LastObservedTime: metav1.NewMicroTime(event.last)}
			return manager.Update(existing, obj, resources.ServerManagerName), nil
		}
		_, _, err = r.plane.Pipeline.Update(resources.APIServer.Request(ctx, "update", t, t.KeyOf(event.namespace, event.name)), &u)
	}
	if err != nil {
		r.plane.Logger.Info("an event was not made a series", "event", event.namespace+"/"+event.name, "error", err)
		return
	}
	event.written = event.count
}

func (r *reporter) write(ctx context.Context, about *resources.Type, o *resources.Object, reason, action, message string) (*reported, error) {
	t, ok := r.plane.Registry.Catalog().Type("events")
	if !ok {
		return &reported{}, nil
	}
	manager, err := t.ServerManagerOf(eventsv1.SchemeGroupVersion.WithKind(t.Kind), "")
	if err != nil {
		return &reported{}, err
	}
	now, namespace := time.Now(), o.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	event := &core.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: util.GenerateEventName(o.Name, now.UnixNano())},
		InvolvedObject: core.ObjectReference{Kind: about.Kind, APIVersion: about.StorageVersion.String(), Namespace: o.Namespace, Name: o.Name,
			UID: types.UID(gjson.GetBytes(o.Data, "metadata.uid").Str), ResourceVersion: resources.FormatRevision(o.Revision)},
		EventTime: metav1.NewMicroTime(now), Type: corev1.EventTypeWarning, Reason: reason, Action: action, Message: message,
		ReportingController: r.name, ReportingInstance: r.instance,
	}
	c := resources.CreateRequest{Type: t, Object: manager.Create(event, resources.ServerManagerName)}
	_, err = r.plane.Pipeline.Create(resources.APIServer.Request(ctx, "create", t, t.KeyOf(namespace, event.Name)), &c)
	if err != nil {
		return &reported{}, err
	}
	return &reported{namespace: namespace, name: event.Name}, nil
}
