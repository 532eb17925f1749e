package builtin_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/policy"

	"github.com/rowlock/rowlock/resources/builtin"
)

const (
	evictOne = `{"metadata":{"name":"one"}}`
	budget   = `{"metadata":{"name":"b1"},"spec":{"minAvailable":1,"selector":{"matchLabels":{"app":"a"}}}}`
	violates = "Cannot evict pod as it would violate the pod's disruption budget."
)

// running makes a pod that runs on a node, healthy or not.
func (c *cluster) running(healthy bool) {
	c.Helper()
	c.create("", "pods", `{"metadata":{"name":"one","labels":{"app":"a"}},"spec":{"nodeName":"n1","containers":[{"name":"a","image":"x"}]}}`)
	c.update("", "pods", "one", func(obj runtime.Object) {
		p := obj.(*core.Pod)
		p.Status.Phase = core.PodRunning
		if healthy {
			p.Status.Conditions = []core.PodCondition{{Type: core.PodReady, Status: core.ConditionTrue}}
		}
	})
}

func (c *cluster) setBudget(change func(*policy.PodDisruptionBudgetStatus)) {
	c.Helper()
	c.update("policy", "poddisruptionbudgets", "b1", func(obj runtime.Object) {
		b := obj.(*policy.PodDisruptionBudget)
		b.Status.ObservedGeneration = b.Generation
		change(&b.Status)
	})
}

// evicted checks that the pod is being deleted and has the reason.
func (c *cluster) evicted() {
	c.Helper()
	p := c.get("", "pods", "one").(*core.Pod)
	_, why := podutil.GetPodCondition(&p.Status, core.DisruptionTarget)
	if p.DeletionTimestamp == nil || why == nil || why.Reason != "EvictionByEvictionAPI" {
		c.Errorf("pod is not being evicted: %+v", p)
	}
}

func (c *cluster) expectCause(err error, code int32, message, cause string, retryAfter int32) {
	c.Helper()
	c.expect(err, refusal{code, message})
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return
	}
	d := status.Status().Details
	if len(d.Causes) != 1 || d.Causes[0].Type != policyv1.DisruptionBudgetCause || d.Causes[0].Message != cause || d.RetryAfterSeconds != retryAfter {
		c.Errorf("details are %+v, want cause %q and retry after %d", d, cause, retryAfter)
	}
}

func TestEvictionWithoutBudget(t *testing.T) {
	c := newCluster(t, builtin.Parts{})
	c.running(true)
	if err := c.post("", "pods", "one", "eviction", evictOne, metav1.DryRunAll); err != nil {
		t.Fatal(err)
	}
	if p := c.get("", "pods", "one").(*core.Pod); p.DeletionTimestamp != nil || len(p.Status.Conditions) != 1 {
		t.Fatalf("a dry run changed the pod: %+v", p)
	}
	if err := c.post("", "pods", "one", "eviction", evictOne); err != nil {
		t.Fatal(err)
	}
	c.evicted()
}

func TestEvictionIsRefused(t *testing.T) {
	c := newCluster(t, builtin.Parts{})
	c.running(true)
	p := c.get("", "pods", "one").(*core.Pod)
	evict := func(name, body string, dryRun ...string) error {
		return c.post("", "pods", name, "eviction", body, dryRun...)
	}

	c.expect(evict("none", `{"metadata":{"name":"none"}}`), refusal{404, `pods "none" not found`})
	c.expect(evict("one", `{"metadata":{"name":"x"}}`), refusal{400, "name in URL does not match name in Eviction object"})
	c.expect(evict("one", `{"metadata":{"name":"one"},"deleteOptions":{"dryRun":["x"]}}`, metav1.DryRunAll),
		refusal{500, "Non-matching dry-run options in request and content: [All] and [x]"})
	c.expect(evict("one", `{"metadata":{"name":"one"},"deleteOptions":{"preconditions":{"uid":"abc"}}}`),
		refusal{409, `Operation cannot be fulfilled on Pod "one": the UID in the precondition (abc) does not match the UID in record (` +
			string(p.UID) + `). The object might have been deleted and then recreated`})
	c.expect(evict("one", `{"metadata":{"name":"one"},"deleteOptions":{"preconditions":{"resourceVersion":"9999"}}}`),
		refusal{409, `Operation cannot be fulfilled on Pod "one": the ResourceVersion in the precondition (9999) does not match the ResourceVersion in record (` +
			p.ResourceVersion + `). The object might have been modified`})
	if got := c.get("", "pods", "one").(*core.Pod); got.ResourceVersion != p.ResourceVersion {
		t.Error("a refused eviction wrote the pod")
	}
}

func TestEvictionHonoursTheBudget(t *testing.T) {
	c := newCluster(t, builtin.Parts{})
	c.running(true)
	c.create("policy", "poddisruptionbudgets", budget)
	evict := func() error { return c.post("", "pods", "one", "eviction", evictOne) }

	c.expectCause(evict(), 429, violates, "The disruption budget b1 is still being processed by the server.", 10)

	c.setBudget(func(s *policy.PodDisruptionBudgetStatus) {
		s.CurrentHealthy, s.DesiredHealthy, s.ExpectedPods = 1, 1, 1
	})
	c.expectCause(evict(), 429, violates, "The disruption budget b1 needs 1 healthy pods and has 1 currently", 0)

	c.setBudget(func(s *policy.PodDisruptionBudgetStatus) { s.DisruptionsAllowed = 1 })
	if err := evict(); err != nil {
		t.Fatal(err)
	}
	c.evicted()
	b := c.get("policy", "poddisruptionbudgets", "b1").(*policy.PodDisruptionBudget)
	if _, told := b.Status.DisruptedPods["one"]; !told || b.Status.DisruptionsAllowed != 0 {
		t.Errorf("the budget does not know of the eviction: %+v", b.Status)
	}
}

// budgetReviews is a validating plugin that remembers who updated which subresource of a budget.
type budgetReviews struct{ updates []string }

func (*budgetReviews) Handles(admission.Operation) bool { return true }

func (r *budgetReviews) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().Resource == "poddisruptionbudgets" && a.GetOperation() == admission.Update {
		r.updates = append(r.updates, a.GetSubresource()+" "+a.GetUserInfo().GetName())
	}
	return nil
}

// TestEvictionWritesTheBudgetAsTheServer expects a request of its own for the budget, as kube-apiserver sends one to itself, and none of a
// dry run.
func TestEvictionWritesTheBudgetAsTheServer(t *testing.T) {
	c := newCluster(t, builtin.Parts{})
	c.running(true)
	c.create("policy", "poddisruptionbudgets", budget)
	c.setBudget(func(s *policy.PodDisruptionBudgetStatus) {
		s.CurrentHealthy, s.DesiredHealthy, s.ExpectedPods, s.DisruptionsAllowed = 2, 1, 2, 1
	})
	c.update("policy", "poddisruptionbudgets", "b1", func(obj runtime.Object) {
		obj.(*policy.PodDisruptionBudget).ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kube-controller-manager", Operation: "Update",
			APIVersion: "policy/v1", FieldsType: "FieldsV1", Subresource: "status",
			FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:disruptionsAllowed":{}}}`)}}
	})
	seen := &budgetReviews{}
	c.pipeline.Use(seen, nil)
	if err := c.post("", "pods", "one", "eviction", `{"metadata":{"name":"one"},"deleteOptions":{"dryRun":["All"]}}`); err != nil {
		t.Fatal(err)
	}
	if len(seen.updates) > 0 {
		t.Errorf("a dry run updated the budget: %v", seen.updates)
	}
	if err := c.post("", "pods", "one", "eviction", evictOne); err != nil {
		t.Fatal(err)
	}
	if want := []string{"status system:apiserver"}; !slices.Equal(seen.updates, want) {
		t.Errorf("admission saw the updates %v, want %v", seen.updates, want)
	}
	b := c.get("policy", "poddisruptionbudgets", "b1").(*policy.PodDisruptionBudget)
	owns := slices.ContainsFunc(b.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == "kube-apiserver" && e.Subresource == "status" && strings.Contains(e.FieldsV1.GetRawString(), `"f:disruptionsAllowed"`)
	})
	if !owns {
		t.Errorf("kube-apiserver does not own status.disruptionsAllowed: %v", b.ManagedFields)
	}
}

func TestEvictionOfAnUnhealthyPodCostsNothing(t *testing.T) {
	c := newCluster(t, builtin.Parts{})
	c.running(false)
	c.create("policy", "poddisruptionbudgets", budget)
	c.setBudget(func(s *policy.PodDisruptionBudgetStatus) {
		s.CurrentHealthy, s.DesiredHealthy, s.ExpectedPods = 1, 1, 2
	})
	if err := c.post("", "pods", "one", "eviction", evictOne); err != nil {
		t.Fatal(err)
	}
	c.evicted()
	if b := c.get("policy", "poddisruptionbudgets", "b1").(*policy.PodDisruptionBudget); len(b.Status.DisruptedPods) != 0 {
		t.Errorf("the budget paid: %+v", b.Status)
	}
}

func TestEvictionWithTwoBudgets(t *testing.T) {
	c := newCluster(t, builtin.Parts{})
	c.running(true)
	c.create("policy", "poddisruptionbudgets", budget)
	c.create("policy", "poddisruptionbudgets", `{"metadata":{"name":"b2"},"spec":{"minAvailable":1,"selector":{"matchLabels":{"app":"a"}}}}`)
	c.expect(c.post("", "pods", "one", "eviction", evictOne),
		refusal{500, "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."})
}

// The eviction of a pod that has not started needs no budget, and without a node the pod is removed at once.
func TestEvictionOfAPendingPod(t *testing.T) {
	c := newCluster(t, builtin.Parts{})
	c.create("", "pods", `{"metadata":{"name":"one","labels":{"app":"a"}},"spec":{"containers":[{"name":"a","image":"x"}]}}`)
	c.create("policy", "poddisruptionbudgets", budget)
	if err := c.post("", "pods", "one", "eviction", evictOne); err != nil {
		t.Fatal(err)
	}
	if p := c.get("", "pods", "one"); p != nil {
		t.Errorf("the pod is still there: %+v", p)
	}
}
