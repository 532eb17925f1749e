package builtin_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources/builtin"
)

const onePod = `{"metadata":{"name":"one","uid":"u1"},"spec":{"containers":[{"name":"a","image":"x"}]}}`

func TestBindingIsRefused(t *testing.T) {
	c := newCluster(t, builtin.Parts{})
	c.create("", "pods", onePod)
	c.create("", "pods", `{"metadata":{"name":"bound"},"spec":{"nodeName":"n1","containers":[{"name":"a","image":"x"}]}}`)
	c.create("", "pods", `{"metadata":{"name":"gated"},"spec":{"schedulingGates":[{"name":"g"}],"containers":[{"name":"a","image":"x"}]}}`)
	pod := c.get("", "pods", "one").(*core.Pod)

	for name, test := range map[string]struct {
		pod, body string
		want      refusal
	}{
		"other name":  {"one", `{"metadata":{"name":"two"},"target":{"name":"n"}}`, refusal{400, "name in URL does not match name in Binding object"}},
		"no target":   {"one", `{"metadata":{"name":"one"}}`, refusal{500, "target.name: Required value"}},
		"not to node": {"one", `{"metadata":{"name":"one"},"target":{"kind":"Pod","name":"n"}}`, refusal{500, `target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>"`}},
		"other uid": {"one", `{"metadata":{"name":"one","uid":"abc"},"target":{"name":"n"}}`, refusal{409, `Operation cannot be fulfilled on pods "one": ` +
			"StorageError: invalid object, Code: 4, Key: /registry/pods/space/one, ResourceVersion: 0, AdditionalErrorMsg: " +
			"Precondition failed: UID in precondition: abc, UID in object meta: " + string(pod.UID)}},
		"other revision": {"one", `{"metadata":{"name":"one","resourceVersion":"9999"},"target":{"name":"n"}}`, refusal{409, `Operation cannot be fulfilled on pods "one": ` +
			"StorageError: invalid object, Code: 4, Key: /registry/pods/space/one, ResourceVersion: 0, AdditionalErrorMsg: " +
			"Precondition failed: ResourceVersion in precondition: 9999, ResourceVersion in object meta: " + pod.ResourceVersion}},
		"no pod":   {"none", `{"metadata":{"name":"none"},"target":{"name":"n"}}`, refusal{404, `pods "none" not found`}},
		"is bound": {"bound", `{"metadata":{"name":"bound"},"target":{"name":"n"}}`, refusal{409, `Operation cannot be fulfilled on pods/binding "bound": pod bound is already assigned to node "n1"`}},
		"is gated": {"gated", `{"metadata":{"name":"gated"},"target":{"name":"n"}}`, refusal{409, `Operation cannot be fulfilled on pods/binding "gated": pod gated has non-empty .spec.schedulingGates`}},
	} {
		t.Run(name, func(t *testing.T) {
			c := *c
			c.T = t
			c.expect(c.post("", "pods", test.pod, "binding", test.body), test.want)
		})
	}
	if got := c.get("", "pods", "one").(*core.Pod); got.ResourceVersion != pod.ResourceVersion {
		t.Errorf("a refused binding wrote the pod")
	}
}

func TestBinding(t *testing.T) {
	c := newCluster(t, builtin.Parts{})
	c.create("", "pods", onePod)
	before := c.get("", "pods", "one").(*core.Pod)
	body := `{"metadata":{"name":"one","uid":"` + string(before.UID) + `","annotations":{"k":"v"},"labels":{"zone":"z"}},"target":{"kind":"Node","name":"n1"}}`

	if err := c.post("", "pods", "one", "binding", body, metav1.DryRunAll); err != nil {
		t.Fatal(err)
	}
	if p := c.get("", "pods", "one").(*core.Pod); p.Spec.NodeName != "" {
		t.Fatalf("a dry run bound the pod to %q", p.Spec.NodeName)
	}
	if err := c.post("", "pods", "one", "binding", body); err != nil {
		t.Fatal(err)
	}
	p := c.get("", "pods", "one").(*core.Pod)
	_, condition := podutil.GetPodCondition(&p.Status, core.PodScheduled)
	if p.Spec.NodeName != "n1" || p.Annotations["k"] != "v" || p.Labels["zone"] != "z" || condition == nil || condition.Status != core.ConditionTrue {
		t.Errorf("bound pod is %+v", p)
	}
}

func TestBindingByName(t *testing.T) {
	c := newCluster(t, builtin.Parts{})
	c.create("", "pods", onePod)
	s := c.served("", "bindings")
	if _, err := c.ask(s, `{"metadata":{"name":"one"},"target":{"name":"n1"}}`); err != nil {
		t.Fatal(err)
	}
	if p := c.get("", "pods", "one").(*core.Pod); p.Spec.NodeName != "n1" {
		t.Errorf("the pod is on node %q", p.Spec.NodeName)
	}
}
