package controllers_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kubernetes/pkg/apis/batch"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/controlplane/controllers"
)

// token creates a bootstrap token.
func (c *cluster) token(id string, until time.Time) *resources.Object {
	c.Helper()
	return c.create("secrets", &core.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-" + id}, Type: core.SecretTypeBootstrapToken,
		Data: map[string][]byte{"token-id": []byte(id), "token-secret": []byte("0123456789abcdef"), "usage-bootstrap-signing": []byte("true"),
			"expiration": []byte(until.UTC().Format(time.RFC3339))}})
}

// cluster-info is signed with every bootstrap token, and tokens are removed when they have expired.
func TestBootstrapTokens(t *testing.T) {
	c := newCluster(t)
	c.serve()
	c.namespace("kube-system")
	c.namespace("kube-public")
	c.change = append(c.change, func(o *controllers.Config) {
		o.Enabled = []string{controllers.BootstrapSigner, controllers.BootstrapCleaner}
	})
	c.start()
	info := c.create("configmaps", &core.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: "cluster-info"},
		Data: map[string]string{"kubeconfig": "how to reach the server"}})
	signed := func(ids ...string) {
		t.Helper()
		c.until("the signatures of "+strings.Join(ids, ", "), info.Key, func(o *resources.Object) bool {
			var found []string
			for key := range decode[corev1.ConfigMap](t, o).Data {
				if id, ok := strings.CutPrefix(key, "jws-kubeconfig-"); ok {
					found = append(found, id)
				}
			}
			slices.Sort(found)
			return slices.Equal(found, ids)
		})
	}
	one := c.token("aaaaaa", time.Now().Add(time.Hour))
	signed("aaaaaa")
	c.token("bbbbbb", time.Now().Add(time.Hour))
	signed("aaaaaa", "bbbbbb")
	c.delete(one, background)
	signed("bbbbbb")
	c.gone(c.token("cccccc", time.Now().Add(time.Second)))
	if c.get(resources.Key{Resource: "secrets", Namespace: "kube-system", Name: "bootstrap-token-bbbbbb"}) == nil {
		t.Error("a token that is good was removed")
	}
}

// A finished Job is removed when its time to live is over; a Job without one, or an unfinished Job, stays.
func TestFinishedJobs(t *testing.T) {
	c := newCluster(t)
	c.serve()
	c.change = append(c.change, func(o *controllers.Config) { o.Enabled = []string{controllers.FinishedJobs} })
	c.start()
	job := func(name string, ttl *int32) *resources.Object {
		t.Helper()
		made, err := c.as("admin", user.SystemPrivilegedGroup).BatchV1().Jobs("ns").Create(c.ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: batchv1.JobSpec{TTLSecondsAfterFinished: ttl, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever,
				Containers: []corev1.Container{{Name: "main", Image: "none"}}}}}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return c.get(c.typeOf("jobs.batch").KeyOf("ns", made.Name))
	}
	finish := func(o *resources.Object, at time.Time) {
		c.edit(o, func(m metav1.Object) {
			then := metav1.NewTime(at)
			m.(*batch.Job).Status = batch.JobStatus{StartTime: &then, Conditions: []batch.JobCondition{
				{Type: batch.JobFailureTarget, Status: core.ConditionTrue, LastTransitionTime: then},
				{Type: batch.JobFailed, Status: core.ConditionTrue, LastTransitionTime: then}}}
		}, "status")
	}
	forever, unfinished, later, over := job("forever", nil), job("unfinished", ptr(int32(0))), job("later", ptr(int32(3600))), job("over", ptr(int32(3600)))
	finish(forever, time.Now())
	finish(later, time.Now())
	finish(over, time.Now().Add(-time.Hour))
	// The deletion has foreground propagation, and the garbage collector does not run here.
	c.until("the deletion", over.Key, func(o *resources.Object) bool { return o == nil || decode[batchv1.Job](t, o).DeletionTimestamp != nil })
	for _, o := range []*resources.Object{forever, unfinished, later} {
		if now := c.get(o.Key); now == nil || decode[batchv1.Job](t, now).DeletionTimestamp != nil {
			t.Errorf("%s was removed", o.Name)
		}
	}
}
