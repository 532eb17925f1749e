package main

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
)

// wantFailure checks the reason and the message of an error.
func wantFailure(t *testing.T, what string, err error, reason metav1.StatusReason, says string) {
	t.Helper()
	if err == nil || apierrors.ReasonForError(err) != reason || !strings.Contains(err.Error(), says) {
		t.Errorf("%s: %v, want %s: %s", what, err, reason, says)
	}
}

// allow grants jane verbs on Secrets.
func (p *process) allow(t *testing.T, verbs ...string) {
	t.Helper()
	name := verbs[0]
	access := p.client(t).RbacV1()
	_, err := access.Roles("default").Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules: []rbacv1.PolicyRule{{Verbs: verbs, APIGroups: []string{""}, Resources: []string{"secrets"}}}}, metav1.CreateOptions{})
	if err == nil {
		_, err = access.RoleBindings("default").Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "jane"}}}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// jane returns a client for the user jane.
func (p *process) jane(t *testing.T) *kubernetes.Clientset {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.Impersonate = rest.ImpersonationConfig{UserName: "jane"}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// Secrets whose key is lost are named in the error of a list, and are deleted, with their finalizers, by users with the
// permission; without the feature gate, by nobody.
func TestDeleteWithoutKey(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "encryption.yaml")
	encryptSecrets(t, file, secretbox("a"))
	serving := []string{"--data-dir", dir, "--encryption-provider-config", file}
	p := start(t, serving...)
	for _, name := range []string{"s1", "s2"} {
		if _, err := p.client(t).CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Name: name, Finalizers: []string{"example.com/kept"}}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	p.allow(t, "get", "list", "update", "delete")
	p.end()

	const reason = "no matching key was found for the provided Secretbox transformer"
	encryptSecrets(t, file, secretbox("b"))
	unsafely := metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: ptr.To(true)}
	p = start(t, append(serving, "--feature-gates=AllowUnsafeMalformedObjectDeletion=false")...)
	secrets := p.jane(t).CoreV1().Secrets("default")
	wantFailure(t, "without the gate", secrets.Delete(t.Context(), "s1", unsafely), metav1.StatusReasonInternalError, "Internal error occurred: "+reason)
	_, err := secrets.List(t.Context(), metav1.ListOptions{})
	wantFailure(t, "list without the gate", err, metav1.StatusReasonInternalError, `unable to transform key "/registry/secrets/default/s1": `+reason)
	p.end()

	p = start(t, append(serving, "--feature-gates=AllowUnsafeMalformedObjectDeletion=true")...)
	secrets = p.jane(t).CoreV1().Secrets("default")
	corrupt := func(key string) string {
		return "StorageError: corrupt object, Code: 7, Key: " + key + ", ResourceVersion: 0, AdditionalErrorMsg: data from the storage is not transformable revision=0: " + reason
	}
	_, err = secrets.Get(t.Context(), "s1", metav1.GetOptions{})
	wantFailure(t, "get", err, metav1.StatusReasonInternalError, "Internal error occurred: "+corrupt("/secrets/default/s1"))
	wantFailure(t, "delete", secrets.Delete(t.Context(), "s1", metav1.DeleteOptions{}), metav1.StatusReasonInternalError, corrupt("/secrets/default/s1"))
	_, err = secrets.Update(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s1"}}, metav1.UpdateOptions{})
	wantFailure(t, "update", err, metav1.StatusReasonInternalError, "Internal error occurred: data from the storage is not transformable revision=0: "+reason)
	_, err = secrets.List(t.Context(), metav1.ListOptions{})
	wantFailure(t, "list", err, metav1.StatusReasonStoreReadError,
		"failed to read one or more secrets from the storage: "+corrupt("/registry/secrets/default/s1")+" (and 1 more)")
	if causes := err.(apierrors.APIStatus).Status().Details.Causes; len(causes) != 2 || causes[1].Field != "/registry/secrets/default/s2" ||
		causes[1].Message != corrupt("/registry/secrets/default/s2") {
		t.Errorf("list: %+v", causes)
	}

	for namespace, name := range map[string]string{"kube-system": "", "default": "s3"} { // collections without unreadable objects
		options := metav1.ListOptions{}
		if name != "" {
			options.FieldSelector = "metadata.name=" + name
		}
		if _, err := p.client(t).CoreV1().Secrets(namespace).List(t.Context(), options); err != nil {
			t.Errorf("list of %s/%s: %v", namespace, name, err)
		}
	}

	tried := unsafely
	tried.DryRun = []string{metav1.DryRunAll}
	const forbidden = `secrets "s1" is forbidden: not permitted to do "unsafe-delete-ignore-read-errors", reason: `
	wantFailure(t, "without the right", secrets.Delete(t.Context(), "s1", unsafely), metav1.StatusReasonForbidden, forbidden)
	wantFailure(t, "dry run without the right", secrets.Delete(t.Context(), "s1", tried), metav1.StatusReasonForbidden, forbidden)
	p.allow(t, "unsafe-delete-ignore-read-errors")
	if err := secrets.Delete(t.Context(), "s1", tried); err != nil {
		t.Errorf("dry run: %v", err)
	}
	_, err = secrets.Get(t.Context(), "s1", metav1.GetOptions{})
	wantFailure(t, "get after a dry run", err, metav1.StatusReasonInternalError, corrupt("/secrets/default/s1"))
	var answer metav1.Status
	if err := p.jane(t).CoreV1().RESTClient().Delete().AbsPath("/api/v1/namespaces/default/secrets/s1").Body(&unsafely).Do(t.Context()).Into(&answer); err != nil ||
		answer.Status != metav1.StatusSuccess || answer.Details == nil || answer.Details.Name != "s1" || answer.Details.Kind != "Secret" {
		t.Errorf("%+v, %v", answer, err)
	}
	wantFailure(t, "once more", secrets.Delete(t.Context(), "s1", unsafely), metav1.StatusReasonNotFound, `secrets "s1" not found`)
	if err := secrets.Delete(t.Context(), "s2", unsafely); err != nil {
		t.Error(err)
	}
	if list, err := secrets.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
		t.Errorf("the last list: %v", err)
	}
	if code := p.end(); code != 0 {
		t.Errorf("ended with %d", code)
	}
}
