package controllers_test

import (
	"fmt"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/controlplane/controllers"
)

// A quota's status has its limits and their use. It is updated when the quota is created or changed, and when the use decreases
// by a deletion or by a change of an object.
func TestResourceQuotaStatus(t *testing.T) {
	c := newCluster(t)
	first, second := c.thing("first"), c.thing("second")
	c.create("deployments.apps", deploymentOf("ns", "d"))
	pod := c.create("pods", &core.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: core.PodSpec{RestartPolicy: core.RestartPolicyNever,
		DNSPolicy: core.DNSDefault, TerminationGracePeriodSeconds: ptr(int64(0)), SecurityContext: &core.PodSecurityContext{},
		Containers: []core.Container{{Name: "c", Image: "i", ImagePullPolicy: core.PullAlways, TerminationMessagePolicy: core.TerminationMessageReadFile,
			Resources: core.ResourceRequirements{Requests: core.ResourceList{core.ResourceCPU: resource.MustParse("2")}}}}}})
	hard := core.ResourceList{}
	for _, name := range []core.ResourceName{"pods", "requests.cpu", "configmaps", "count/deployments.apps", "count/replicasets.apps"} {
		hard[name] = resource.MustParse("10")
	}
	q := c.create("resourcequotas", &core.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "q"}, Spec: core.ResourceQuotaSpec{Hard: hard}})
	c.serve()
	c.change = append(c.change, func(o *controllers.Config) { o.Enabled = []string{controllers.ResourceQuota} })
	c.start()
	uses := func(what, want string) {
		t.Helper()
		c.until(what, q.Key, func(o *resources.Object) bool {
			now := decode[corev1.ResourceQuota](t, o)
			used := ""
			for _, name := range []corev1.ResourceName{"pods", "requests.cpu", "configmaps", "count/deployments.apps", "count/replicasets.apps"} {
				value, ok := now.Status.Used[name]
				if !ok || !now.Status.Hard[name].Equal(now.Spec.Hard[name]) {
					used += "? "
					continue
				}
				used += value.String() + " "
			}
			t.Log(what, used)
			return used == want+" "
		})
	}
	uses("what there is", "1 2 2 1 0")
	c.delete(first, metav1.DeletePropagationBackground)
	uses("without a ConfigMap", "1 2 1 1 0")
	c.edit(pod, func(m metav1.Object) { m.(*core.Pod).Status.Phase = core.PodSucceeded }, "status")
	uses("when the Pod has ended", "0 0 1 1 0")
	c.edit(c.get(q.Key), func(m metav1.Object) { m.(*core.ResourceQuota).Spec.Hard["configmaps"] = resource.MustParse("1") })
	c.delete(second, metav1.DeletePropagationBackground)
	uses("with another bound", "0 0 0 1 0")
}

// The use of a request is added to a quota before the request is carried out: a measurement in between keeps it.
func TestQuotaKeepsWhatIsUnderWay(t *testing.T) {
	c := newCluster(t)
	c.thing("stays")
	c.serve()
	c.change = append(c.change, func(o *controllers.Config) { o.Enabled = []string{controllers.ResourceQuota} })
	c.start()
	configMaps := func(o *resources.Object) int64 {
		used := decode[corev1.ResourceQuota](t, o).Status.Used[corev1.ResourceConfigMaps]
		return used.Value()
	}
	for round := range 3 {
		goes := c.thing(fmt.Sprintf("goes-%d", round))
		q := c.create("resourcequotas", &core.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "q"},
			Spec: core.ResourceQuotaSpec{Hard: core.ResourceList{core.ResourceConfigMaps: resource.MustParse("100")}}})
		there := int64(2 + round)
		c.until("what there is", q.Key, func(o *resources.Object) bool { return configMaps(o) == there })
		before := c.get(q.Key)
		c.edit(before, func(m metav1.Object) {
			m.(*core.ResourceQuota).Status.Used[core.ResourceConfigMaps] = *resource.NewQuantity(there+1, resource.DecimalSI)
		}, "status")
		c.delete(goes, metav1.DeletePropagationBackground)
		time.Sleep(20 * time.Millisecond) // in which the quota would be measured
		c.put("configmaps", &core.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("comes-%d", round)}})
		c.until("one that went and one that came", q.Key, func(o *resources.Object) bool {
			return o.Revision > before.Revision && configMaps(o) == there
		})
		c.delete(c.get(q.Key), metav1.DeletePropagationBackground)
		c.gone(q)
	}
}

func deploymentOf(namespace, name string) *apps.Deployment {
	l := labels.Set{"a": "b"}
	return &apps.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: apps.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: l}, Strategy: apps.DeploymentStrategy{Type: apps.RecreateDeploymentStrategyType},
		Template: core.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: l}, Spec: core.PodSpec{RestartPolicy: core.RestartPolicyAlways, DNSPolicy: core.DNSDefault,
			TerminationGracePeriodSeconds: ptr(int64(0)), SecurityContext: &core.PodSecurityContext{},
			Containers: []core.Container{{Name: "c", Image: "i", ImagePullPolicy: core.PullAlways, TerminationMessagePolicy: core.TerminationMessageReadFile}}}}}}
}

// A policy's status reports type errors in its expressions, with the generation that was checked.
func TestPolicyStatus(t *testing.T) {
	c := newCluster(t)
	c.serve()
	c.change = append(c.change, func(o *controllers.Config) { o.Enabled = []string{controllers.PolicyStatus} })
	c.start()
	fail, all := admissionregistration.Fail, admissionregistration.AllScopes
	equivalent := admissionregistration.Equivalent
	p := c.create("validatingadmissionpolicies.admissionregistration.k8s.io", &admissionregistration.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: admissionregistration.ValidatingAdmissionPolicySpec{FailurePolicy: &fail,
			MatchConstraints: &admissionregistration.MatchResources{MatchPolicy: &equivalent, NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{},
				ResourceRules: []admissionregistration.NamedRuleWithOperations{{RuleWithOperations: admissionregistration.RuleWithOperations{
					Operations: []admissionregistration.OperationType{"CREATE"},
					Rule:       admissionregistration.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}, Scope: &all}}}}},
			Validations: []admissionregistration.Validation{{Expression: "object.spec.replicas > '5'"}}}})
	says := func(generation int64, want string) {
		t.Helper()
		c.until(fmt.Sprintf("the status of generation %d", generation), p.Key, func(o *resources.Object) bool {
			now := decode[admissionregistrationv1.ValidatingAdmissionPolicy](t, o)
			if now.Status.ObservedGeneration != generation {
				return false
			}
			got := ""
			if now.Status.TypeChecking != nil {
				for _, w := range now.Status.TypeChecking.ExpressionWarnings {
					got += w.FieldRef + ": " + w.Warning
				}
			}
			if got != want {
				t.Fatalf("says %q, want %q", got, want)
			}
			return true
		})
	}
	says(1, "spec.validations[0].expression: apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload for '_>_' applied to '(int, string)'\n"+
		" | object.spec.replicas > '5'\n | .....................^\n")
	c.edit(c.get(p.Key), func(m metav1.Object) {
		m.(*admissionregistration.ValidatingAdmissionPolicy).Spec.Validations[0].Expression = "object.spec.replicas > 5"
	})
	says(2, "")
}
