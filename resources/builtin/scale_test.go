package builtin_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/autoscaling"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources/builtin"
)

func TestScaleShowsItsParent(t *testing.T) {
	c := newCluster(t, builtin.Parts{})
	m := metav1.ObjectMeta{Name: "x", Namespace: space, UID: "u", ResourceVersion: "5", Labels: map[string]string{"not": "shown"}}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	two := int32(2)
	for _, test := range []struct {
		group, resource string
		parent          runtime.Object
	}{
		{"apps", "deployments", &apps.Deployment{ObjectMeta: m, Spec: apps.DeploymentSpec{Replicas: 2, Selector: selector}, Status: apps.DeploymentStatus{Replicas: 1}}},
		{"apps", "replicasets", &apps.ReplicaSet{ObjectMeta: m, Spec: apps.ReplicaSetSpec{Replicas: 2, Selector: selector}, Status: apps.ReplicaSetStatus{Replicas: 1}}},
		{"apps", "statefulsets", &apps.StatefulSet{ObjectMeta: m, Spec: apps.StatefulSetSpec{Replicas: 2, Selector: selector}, Status: apps.StatefulSetStatus{Replicas: 1}}},
		{"", "replicationcontrollers", &core.ReplicationController{ObjectMeta: m,
			Spec: core.ReplicationControllerSpec{Replicas: &two, Selector: selector.MatchLabels}, Status: core.ReplicationControllerStatus{Replicas: 1}}},
	} {
		s := c.served(test.group, test.resource)
		p := s.Subresources["scale"].Projection
		got, err := p.FromParent(test.parent)
		if err != nil {
			t.Fatal(err)
		}
		want := &autoscaling.Scale{
			ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: space, UID: "u", ResourceVersion: "5"},
			Spec:       autoscaling.ScaleSpec{Replicas: 2},
			Status:     autoscaling.ScaleStatus{Replicas: 1, Selector: "a=b"},
		}
		if diff := cmp.Diff(runtime.Object(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.resource, diff)
		}
		want.Spec.Replicas, want.ResourceVersion = 7, ""
		if err := p.ToParent(want, test.parent); err != nil {
			t.Fatal(err)
		}
		if got, _ = p.FromParent(test.parent); cmp.Diff(runtime.Object(want), got) != "" {
			t.Errorf("%s was not scaled: %+v", test.resource, got)
		}
		if _, ok := p.ReplicasPaths()[s.GroupVersion().String()]; !ok {
			t.Errorf("%s: nobody can own spec.replicas in %s", test.resource, s.GroupVersion())
		}
	}
}

func TestScaleIsRefused(t *testing.T) {
	c := newCluster(t, builtin.Parts{})
	d := &apps.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d", Namespace: space, UID: "u"},
		Spec: apps.DeploymentSpec{Replicas: 2, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}}
	p := c.served("apps", "deployments").Subresources["scale"].Projection
	scale, err := p.FromParent(d)
	if err != nil {
		t.Fatal(err)
	}
	negative := scale.DeepCopyObject().(*autoscaling.Scale)
	negative.Spec.Replicas = -1
	c.expect(p.ToParent(negative, d), refusal{422, `Scale.autoscaling "d" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0`})
	other := scale.DeepCopyObject().(*autoscaling.Scale)
	other.UID = "abc"
	c.expect(p.ToParent(other, d), refusal{409, `Operation cannot be fulfilled on deployments/scale.apps "d": Precondition failed: UID in precondition: abc, UID in object meta: u`})
	if d.Spec.Replicas != 2 {
		t.Errorf("a refused scale changed the deployment to %d replicas", d.Spec.Replicas)
	}
}
