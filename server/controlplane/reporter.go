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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources"
)

// reporter writes Events about what the server does of itself, in the form of events.k8s.io (KEP-383). It is for one
// goroutine.
type reporter struct {
	plane          *Plane
	name, instance string
	now            func() time.Time
	// said is when something was reported, of late; it was swept last at a time.
	said  map[report]time.Time
	swept time.Time
}

// report is what is not said twice in a row, of an object that has not changed.
type report struct {
	key             resources.Key
	revision        int64
	reason, message string
}

// repeatAfter is how long kube-apiserver counts repetitions instead of writing another Event.
const repeatAfter = 6 * time.Minute

func (p *Plane) newReporter(name string) *reporter {
	hostname, _ := os.Hostname() // a machine without a name has events all the same
	return &reporter{plane: p, name: name, instance: name + "-" + hostname, now: time.Now, said: map[report]time.Time{}}
}

// warn writes an Event about an object, unless it has just done so. It is a courtesy: what hinders it is logged, and not
// tried again.
func (r *reporter) warn(ctx context.Context, about *resources.Type, o *resources.Object, reason, action, message string) {
	if r.repeats(report{o.Key, o.Revision, reason, message}) {
		return
	}
	r.plane.Logger.Warn(message, "about", o.Key.String())
	if err := r.write(ctx, about, o, reason, action, message); err != nil {
		r.plane.Logger.Info("no event was written", "about", o.Key.String(), "error", err)
	}
}

func (r *reporter) repeats(said report) bool {
	now := r.now()
	if now.Sub(r.swept) >= repeatAfter {
		maps.DeleteFunc(r.said, func(_ report, at time.Time) bool { return now.Sub(at) >= repeatAfter })
		r.swept = now
	}
	if at, ok := r.said[said]; ok && now.Sub(at) < repeatAfter {
		return true
	}
	r.said[said] = now
	return false
}

func (r *reporter) write(ctx context.Context, about *resources.Type, o *resources.Object, reason, action, message string) error {
	t, ok := r.plane.Registry.Catalog().Type("events")
	if !ok {
		return nil
	}
	manager, err := t.ServerManagerOf(eventsv1.SchemeGroupVersion.WithKind(t.Kind), "")
	if err != nil {
		return err
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
	return err
}
