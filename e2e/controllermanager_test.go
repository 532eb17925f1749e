package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/rowlock/rowlock/e2e/harness"
)

// TestControllerManager runs an unmodified kube-controller-manager on top. Its garbage collector and its namespace controller do the same work as the
// server's own, and both stay correct: everything that should be deleted is, everything else stays, and neither overwrites the other again and again.
func TestControllerManager(t *testing.T) {
	server := startServer(t, harness.RowlockOptions{})
	startControllerManager(t, server)
	client := clientFor(t, server)
	namespace := unique("managed")
	_, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	events, err := client.CoreV1().Namespaces().Watch(t.Context(), metav1.SingleObject(metav1.ObjectMeta{Name: namespace}))
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	k := kubectl{namespace: namespace}
	run := func(args ...string) {
		t.Helper()
		k.run(t, append([]string{"--kubeconfig", server.Kubeconfig}, args...)...)
	}

	run("wait", "--for=create", "serviceaccount/default", "--timeout=60s")
	run("wait", "--for=create", "configmap/kube-root-ca.crt", "--timeout=60s")
	for _, cascade := range []string{"background", "foreground", "orphan"} {
		run("create", "deployment", cascade, "--image=none", "--replicas=3")
		run("wait", "--for=jsonpath={.status.replicas}=3", "deployment/"+cascade, "--timeout=60s")
		if n := len(podsOf(t, client, namespace, cascade)); n != 3 {
			t.Errorf("%s: %d pods", cascade, n)
		}
		run("delete", "deployment", cascade, "--cascade="+cascade)
	}
	run("wait", "--for=delete", "replicaset,pod", "-l", "app in (background,foreground)", "--timeout=60s")
	if n := len(podsOf(t, client, namespace, "orphan")); n != 3 {
		t.Errorf("%d pods of a replica set that was orphaned", n)
	}
	checkStatuses(t, server, k)
	run("delete", "namespace", namespace, "--timeout=60s")
	if pods := podsOf(t, client, namespace, "orphan"); len(pods) != 0 {
		t.Errorf("%d pods in a namespace that is gone", len(pods))
	}
	if _, err := client.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("get the namespace: %v", err)
	}
	checkEnd(t, events)
}

// checkStatuses checks that both sides measure a quota and check the types of a policy with the same results, and then write no more.
func checkStatuses(t *testing.T, server *harness.Server, k kubectl) {
	t.Helper()
	run := func(args ...string) string {
		t.Helper()
		return k.run(t, append([]string{"--kubeconfig", server.Kubeconfig}, args...)...)
	}
	run("create", "quota", "most", "--hard=count/deployments.apps=5,configmaps=9")
	run("wait", "--for=jsonpath={.status.used.count/deployments\\.apps}=0", "quota/most", "--timeout=60s")
	run("create", "deployment", "counted", "--image=none", "--replicas=0")
	run("wait", "--for=jsonpath={.status.used.count/deployments\\.apps}=1", "quota/most", "--timeout=60s")
	run("delete", "deployment", "counted")
	run("wait", "--for=jsonpath={.status.used.count/deployments\\.apps}=0", "quota/most", "--timeout=60s")
	k.stdin = policyWithWrongType
	run("create", "-f", "-")
	k.stdin = ""
	run("wait", "--for=jsonpath={.status.observedGeneration}=1", "validatingadmissionpolicy/wrong", "--timeout=60s")
	if warned := run("get", "validatingadmissionpolicy", "wrong", "-o", "jsonpath={.status.typeChecking.expressionWarnings[*].fieldRef}"); warned != "spec.validations[0].expression" {
		t.Errorf("warned of %q", warned)
	}
	run("delete", "validatingadmissionpolicy", "wrong")
}

const policyWithWrongType = `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"wrong"},"spec":{
"matchConstraints":{"resourceRules":[{"apiGroups":["apps"],"apiVersions":["v1"],"operations":["CREATE"],"resources":["deployments"]}]},
"validations":[{"expression":"object.spec.replicas > '5'"}]}}`

// startControllerManager runs kube-controller-manager until the test ends.
func startControllerManager(t *testing.T, server *harness.Server) {
	t.Helper()
	if err := harness.Build(t.Context(), "kube-controller-manager"); err != nil {
		t.Fatal(err)
	}
	manager, err := harness.StartControllerManager(server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := manager.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("kube-controller-manager said:\n%s", manager.Output())
		}
	})
}

func podsOf(t *testing.T, client kubernetes.Interface, namespace, app string) []corev1.Pod {
	t.Helper()
	pods, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

// checkEnd follows a namespace to its end: every change on the way brings it into a new state.
func checkEnd(t *testing.T, events watch.Interface) {
	t.Helper()
	states := map[string]bool{}
	for event := range events.ResultChan() {
		namespace, ok := event.Object.(*corev1.Namespace)
		if !ok {
			t.Fatalf("%v: %v", event.Type, event.Object)
		}
		if event.Type == watch.Deleted {
			return
		}
		for i := range namespace.Status.Conditions {
			namespace.Status.Conditions[i].LastTransitionTime = metav1.Time{}
		}
		state := fmt.Sprint(namespace.DeletionTimestamp, namespace.Spec.Finalizers, namespace.Status)
		t.Log(event.Type, state)
		if states[state] {
			t.Errorf("again: %s", state)
		}
		states[state] = true
	}
	t.Error("the watch ended before the namespace did")
}
