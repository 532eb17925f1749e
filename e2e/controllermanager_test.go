package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"

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
	checkCredentials(t, server, k)
	checkQuiet(t, server, k)
	run("delete", "validatingadmissionpolicy", "wrong")
	run("delete", "namespace", namespace, "--timeout=60s")
	if pods := podsOf(t, client, namespace, "orphan"); len(pods) != 0 {
		t.Errorf("%d pods in a namespace that is gone", len(pods))
	}
	if _, err := client.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("get the namespace: %v", err)
	}
	checkEnd(t, events)
}

// checkStatuses checks that both sides measure a quota and check the types of a policy with the same results, and that a finished Job is deleted.
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
	k.stdin = jobWithoutPods
	run("create", "-f", "-")
	k.stdin = ""
	run("wait", "--for=delete", "job/brief", "--timeout=60s")
}

// jobWithoutPods is complete at once.
const jobWithoutPods = `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"brief"},"spec":{"completions":0,"parallelism":0,"ttlSecondsAfterFinished":0,
"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"none"}]}}}}`

// checkCredentials checks that a certificate request is signed, that a Secret gets a token, and that the authority of kube-controller-manager's file
// is published.
func checkCredentials(t *testing.T, server *harness.Server, k kubectl) {
	t.Helper()
	run := func(args ...string) string {
		t.Helper()
		return k.run(t, append([]string{"--kubeconfig", server.Kubeconfig}, args...)...)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	request, err := cert.MakeCSR(key, &pkix.Name{CommonName: "jane"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	k.stdin = fmt.Sprintf(`{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{"name":"jane"},"spec":{
		"signerName":"kubernetes.io/kube-apiserver-client","usages":["client auth"],"request":%q}}`, base64.StdEncoding.EncodeToString(request))
	run("create", "-f", "-")
	k.stdin = ""
	run("certificate", "approve", "jane")
	run("wait", "--for=jsonpath={.status.certificate}", "csr/jane", "--timeout=60s")
	k.stdin = `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"token","annotations":{"kubernetes.io/service-account.name":"default"}},"type":"kubernetes.io/service-account-token"}`
	run("create", "-f", "-")
	k.stdin = ""
	run("wait", "--for=jsonpath={.data.token}", "secret/token", "--timeout=60s")
	await(t.Context(), t, "kube-controller-manager's authority", func() (bool, error) {
		return strings.HasPrefix(run("get", "configmap", "kube-root-ca.crt", "-o", `jsonpath={.data.ca\.crt}`), "The authority"), nil
	})
}

// checkQuiet checks that neither side writes any more what both maintain, while they do further work.
func checkQuiet(t *testing.T, server *harness.Server, k kubectl) {
	t.Helper()
	run := func(args ...string) string {
		t.Helper()
		return k.run(t, append([]string{"--kubeconfig", server.Kubeconfig}, args...)...)
	}
	versions := func() (all []string) {
		for _, objects := range []string{"quota/most", "validatingadmissionpolicy/wrong", "configmap/kube-root-ca.crt", "secret/token", "serviceaccount/default",
			"clusterrole/admin", "csr/jane", "namespace/" + k.namespace} {
			all = append(all, objects+" "+run("get", objects, "-o", "jsonpath={.metadata.resourceVersion}"))
		}
		return append(all, run("get", "clustertrustbundles", "-o", `jsonpath={range .items[*]}{.metadata.name}{" "}{.metadata.resourceVersion}{end}`))
	}
	work := func() {
		other := kubectl{namespace: unique("further")}
		other.run(t, "--kubeconfig", server.Kubeconfig, "create", "namespace", other.namespace)
		for _, args := range [][]string{{"wait", "--for=create", "serviceaccount/default", "--timeout=60s"}, {"create", "quota", "most", "--hard=count/deployments.apps=5"},
			{"create", "deployment", "counted", "--image=none", "--replicas=1"}, {"wait", "--for=jsonpath={.status.used.count/deployments\\.apps}=1", "quota/most", "--timeout=60s"},
			{"delete", "deployment", "counted", "--cascade=foreground", "--timeout=60s"}, {"delete", "namespace", other.namespace, "--timeout=60s"}} {
			other.run(t, append([]string{"--kubeconfig", server.Kubeconfig}, args...)...)
		}
	}
	work()
	before := versions()
	work()
	if diff := cmp.Diff(before, versions()); diff != "" {
		t.Errorf("written again: %s", diff)
	}
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
