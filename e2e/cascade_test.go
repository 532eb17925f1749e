package e2e

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rowlock/rowlock/e2e/harness"
)

// TestCascade deletes a Deployment in kubectl's three ways, and the namespace at last: each ends as on a cluster, though only the server itself is
// there to end it.
func TestCascade(t *testing.T) {
	server := startServer(t, harness.RowlockOptions{})
	client := clientFor(t, server)
	for _, cascade := range []string{"background", "foreground", "orphan"} {
		namespace := unique("cascade")
		_, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		replicaSet, pods := rollOut(t, client, namespace)
		k := kubectl{namespace: namespace}
		wants(t, k.run(t, "--kubeconfig", server.Kubeconfig, "delete", "deployment", "web", "--cascade="+cascade), `deployment.apps "web" deleted`)
		// Foreground: the dependents are deleted before the owner.
		if cascade == "background" {
			k.run(t, "--kubeconfig", server.Kubeconfig, "wait", "--for=delete", "replicaset/web-1", "pod/web-1-0", "pod/web-1-1", "--timeout=30s")
		}
		rs, err := client.AppsV1().ReplicaSets(namespace).Get(t.Context(), replicaSet, metav1.GetOptions{})
		if orphaned := err == nil && len(rs.OwnerReferences) == 0; orphaned != (cascade == "orphan") || !orphaned && !apierrors.IsNotFound(err) {
			t.Errorf("%s: replica set %v, %v", cascade, rs, err)
		}
		for _, name := range pods {
			pod, err := client.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
			if kept := err == nil && len(pod.OwnerReferences) == 1; kept != (cascade == "orphan") || !kept && !apierrors.IsNotFound(err) {
				t.Errorf("%s: pod %v, %v", cascade, pod, err)
			}
		}
		wants(t, k.run(t, "--kubeconfig", server.Kubeconfig, "delete", "namespace", namespace), fmt.Sprintf("namespace %q deleted", namespace))
		_, stderr, err := k.try(t, "--kubeconfig", server.Kubeconfig, "get", "namespace", namespace)
		if err == nil {
			t.Errorf("%s is there", namespace)
		}
		wants(t, stderr, "(NotFound)")
	}
}

// TestControllersOff checks that a server without the controllers leaves the end of a namespace to another one.
func TestControllersOff(t *testing.T) {
	server := startServer(t, harness.RowlockOptions{Args: []string{"--controllers=*,-namespace"}})
	client := clientFor(t, server)
	namespace, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "stays"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, pods := rollOut(t, client, "stays")
	if err := client.CoreV1().Namespaces().Delete(t.Context(), "stays", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	k := kubectl{namespace: "stays"}
	// The other controller works.
	k.run(t, "--kubeconfig", server.Kubeconfig, "delete", "deployment", "web", "--cascade=foreground")
	if _, err := client.CoreV1().Pods("stays").Get(t.Context(), pods[0], metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("get a pod of a deployment that is gone: %v", err)
	}
	now, err := client.CoreV1().Namespaces().Get(t.Context(), "stays", metav1.GetOptions{})
	if err != nil || now.UID != namespace.UID || now.Status.Phase != corev1.NamespaceTerminating || len(now.Spec.Finalizers) != 1 {
		t.Errorf("%v, %v", now, err)
	}
}

// rollOut creates the objects that kube-controller-manager creates for a Deployment: a ReplicaSet and its Pods.
func rollOut(t *testing.T, client kubernetes.Interface, namespace string) (replicaSet string, pods []string) {
	t.Helper()
	labels := map[string]string{"app": "web"}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/web:1"}}}}
	deployment, err := client.AppsV1().Deployments(namespace).Create(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Selector: selector, Template: template}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rs, err := client.AppsV1().ReplicaSets(namespace).Create(t.Context(), &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web-1", OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(deployment, appsv1.SchemeGroupVersion.WithKind("Deployment"))}},
		Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: template}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		pod := &corev1.Pod{Spec: template.Spec, ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-1-%d", i), Labels: labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(rs, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}}}
		if _, err := client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		pods = append(pods, pod.Name)
	}
	return rs.Name, pods
}
