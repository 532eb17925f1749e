package resources_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/utils/ptr"

	"github.com/rowlock/rowlock/resources"
)

// aPod is a pod that the strategies accept; it has no node.
func aPod(name string) *core.Pod {
	return &core.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}, Spec: core.PodSpec{
		RestartPolicy: core.RestartPolicyAlways, DNSPolicy: core.DNSClusterFirst, TerminationGracePeriodSeconds: ptr.To[int64](30), SecurityContext: &core.PodSecurityContext{},
		Containers: []core.Container{{Name: "c", Image: "i", ImagePullPolicy: core.PullAlways, TerminationMessagePolicy: core.TerminationMessageReadFile, TerminationMessagePath: "/t"}},
	}}
}

// counted counts transactions.
type counted struct {
	resources.Store
	commits int
}

func (c *counted) Commit(ctx context.Context, writes ...resources.Write) ([]*resources.Object, error) {
	c.commits++
	return c.Store.Commit(ctx, writes...)
}

// A pod without a node is deleted at once: watchers see it marked and then removed, in one transaction, unless the removal is
// refused.
func TestDeletionAtOnce(t *testing.T) {
	for name, test := range map[string]struct {
		finalizers []string
		refuse     bool // admission refuses to remove a marked object
		events     string
		commits    int
		reason     metav1.StatusReason
		gone       bool
	}{
		"plain":      {events: "update marked,delete marked", commits: 1, gone: true},
		"finalizers": {finalizers: []string{"example.com/f"}, events: "update marked", commits: 1},
		"refused":    {refuse: true, events: "update marked", commits: 1, reason: metav1.StatusReasonForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWay(t)
			store := &counted{Store: w.store}
			p := resources.NewPipeline(store, resources.PipelineOptions{})
			p.Use(refusal{test.refuse}, nil)
			pods := w.typeOf("pods")
			pod := aPod("p")
			pod.Finalizers = test.finalizers
			made, err := p.Create(w.request("create", pods, "p"), &resources.CreateRequest{Type: pods, Object: pod})
			if err != nil {
				t.Fatal(err)
			}
			store.commits = 0
			d, err := p.Delete(w.request("delete", pods, "p"), &resources.DeleteRequest{Type: pods, Name: "p"})
			if apierrors.ReasonForError(err) != test.reason || (err == nil) != (test.reason == "") || d.Gone != test.gone {
				t.Errorf("%v, gone: %t", err, d.Gone)
			}
			if store.commits != test.commits {
				t.Errorf("%d transactions, want %d", store.commits, test.commits)
			}
			events, last := eventsOf(t, w.store, made.Revision)
			if diff := cmp.Diff(test.events, events); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if err == nil && (d.Object.Revision != last.Revision || string(d.Object.Data) != string(last.Data)) {
				t.Errorf("the answer is %d %s\nthe event has %d %s", d.Object.Revision, d.Object.Data, last.Revision, last.Data)
			}
		})
	}
}

// eventsOf are the events of all pods after a revision, and the object of the last one.
func eventsOf(t *testing.T, s resources.Store, after int64) (events string, last *resources.Object) {
	w, err := s.Watch(t.Context(), resources.WatchOptions{Resource: "pods", After: after})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	seen, _, err := w.Next(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range seen {
		text := map[resources.Op]string{resources.Update: "update", resources.Delete: "delete"}[e.Op]
		if strings.Contains(string(e.Object.Data), `"deletionTimestamp"`) {
			text += " marked"
		}
		all, last = append(all, text), e.Object
	}
	return strings.Join(all, ","), last
}

// refusal is admission that may refuse the deletion of a marked object.
type refusal struct{ refuses bool }

func (refusal) Handles(admission.Operation) bool { return true }

func (r refusal) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if pod, ok := a.GetOldObject().(*core.Pod); ok && r.refuses && a.GetOperation() == admission.Delete && pod.DeletionTimestamp != nil {
		return admission.NewForbidden(a, errors.New("it is marked"))
	}
	return nil
}
