package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// own gives the references to owners the uids that these have now. One to an owner that is not there goes: by it the garbage collector would
// delete the object.
func (t *takeBack) own(ctx context.Context, s *step) error {
	var owners []metav1.OwnerReference
	for _, owner := range s.body.GetOwnerReferences() {
		now, err := t.uidOf(ctx, s.body.GetNamespace(), owner)
		if err != nil {
			return err
		}
		if now == "" {
			fmt.Fprintf(t.out, "%s: its owner %s %s is not there, and is left out\n", s.part, owner.Kind, owner.Name)
			continue
		}
		owner.UID = now
		owners = append(owners, owner)
	}
	s.body.SetOwnerReferences(owners)
	return nil
}

// uidOf is what an owner has now; empty: there is none.
func (t *takeBack) uidOf(ctx context.Context, namespace string, owner metav1.OwnerReference) (types.UID, error) {
	if now, ok := t.uids[owner.UID]; ok {
		return now, nil
	}
	if t.wanted[owner.UID] != nil {
		return owner.UID, nil // it is taken back before, in this group: then it has another one
	}
	gv, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil {
		return "", err
	}
	served, err := t.served(ctx, gv)
	if apierrors.IsNotFound(err) {
		return "", nil // the version is not served any more: nor is the owner there, then
	}
	if err != nil {
		return "", err
	}
	kind, ok := served.byKind[owner.Kind]
	if !ok {
		return "", nil
	}
	if !kind.Namespaced {
		namespace = ""
	}
	var live metav1.PartialObjectMetadata
	err = t.client.do(ctx, http.MethodGet, pathOf(gv, namespace, kind.Name)+"/"+url.PathEscape(owner.Name), nil, &live)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	return live.UID, err
}

// bind makes the Secret of a token one of its ServiceAccount as that is now, with the token that is there: by the uid of before it would be deleted. Where
// there is no token, one is made.
func (t *takeBack) bind(ctx context.Context, s *step) error {
	annotations := s.body.GetAnnotations()
	was := types.UID(annotations[corev1.ServiceAccountUIDKey])
	if s.resource != "secrets" || s.body.Object["type"] != string(corev1.SecretTypeServiceAccountToken) || was == "" {
		return nil
	}
	now, err := t.uidOf(ctx, s.body.GetNamespace(), metav1.OwnerReference{APIVersion: "v1", Kind: "ServiceAccount", Name: annotations[corev1.ServiceAccountNameKey], UID: was})
	if err != nil || now == "" || now == was {
		return err
	}
	annotations[corev1.ServiceAccountUIDKey] = string(now)
	s.body.SetAnnotations(annotations)
	inPlace(s.body, s.live, []string{"data", corev1.ServiceAccountTokenKey})
	return nil
}

// claim has a volume and the claim of it know each other by the uids of now. A controller would say of a claim that is said to be bound, to a volume that
// has another's uid, that it has lost it, for good; and of a volume whose claim has another uid that this is gone, and delete what is in it. So the claim
// is not bound yet, and asks for the same volume: another one would be empty.
func (t *takeBack) claim(ctx context.Context, s *step) error {
	switch s.resource {
	case "persistentvolumeclaims":
		if s.live != nil && s.live.GetUID() == s.uid {
			return nil
		}
		for _, annotation := range []string{"pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller"} {
			inPlace(s.body, s.live, []string{"metadata", "annotations", annotation})
		}
		s.leaveStatus = true
		if volume, _, _ := unstructured.NestedString(s.body.Object, "spec", "volumeName"); volume != "" && s.live == nil {
			s.does += ", to be bound to " + volume + " when that is there and free"
		}
	case "persistentvolumes":
		text := func(field string) string {
			value, _, _ := unstructured.NestedString(s.body.Object, "spec", "claimRef", field)
			return value
		}
		was := types.UID(text("uid"))
		if was == "" {
			return nil
		}
		now, err := t.uidOf(ctx, text("namespace"), metav1.OwnerReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Name: text("name"), UID: was})
		if err != nil || now == was {
			return err
		}
		unstructured.RemoveNestedField(s.body.Object, "spec", "claimRef", "resourceVersion")
		if unstructured.RemoveNestedField(s.body.Object, "spec", "claimRef", "uid"); now != "" {
			return unstructured.SetNestedField(s.body.Object, string(now), "spec", "claimRef", "uid")
		}
	}
	return nil
}

const jobs = "jobs.batch"

// generatedOf takes from a Job the selector and the labels that the server has made of the uid that it had, and puts those of the one that
// is there in their place, if there is one: the server refuses others.
func generatedOf(job, live *unstructured.Unstructured) {
	fields := [][]string{{"spec", "selector"}}
	for _, label := range []string{"controller-uid", batchv1.ControllerUidLabel} {
		fields = append(fields, []string{"spec", "template", "metadata", "labels", label})
	}
	for _, field := range fields {
		inPlace(job, live, field)
	}
}

// inPlace puts the value of a field that is there into the place of another one; none, where there is none.
func inPlace(body, live *unstructured.Unstructured, field []string) {
	unstructured.RemoveNestedField(body.Object, field...)
	if live == nil {
		return
	}
	if now, ok, _ := unstructured.NestedFieldCopy(live.Object, field...); ok {
		_ = unstructured.SetNestedField(body.Object, now, field...) // what is no object there is refused by the server
	}
}
