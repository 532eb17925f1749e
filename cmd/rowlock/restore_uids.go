package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// own sets the present uids in owner references. It removes references to owners that do not exist: the garbage collector would delete the
// object because of them. The reference to an owner that is yet to be restored is tried with the owner's old uid, written without it, and set
// when the owner is there.
func (t *takeBack) own(ctx context.Context, s *step, written bool) error {
	var owners []metav1.OwnerReference
	s.early = false
	for _, owner := range s.object.GetOwnerReferences() {
		now, err := t.uidOf(ctx, s.body.GetNamespace(), owner)
		if err != nil {
			return err
		}
		waits := now == "" && t.wanted[owner.UID] != nil
		s.early = s.early || waits
		switch {
		case now != "":
			owner.UID = now
		case waits && !written:
		default:
			if !waits && !slices.Contains(s.left, owner.UID) {
				s.left = append(s.left, owner.UID)
				fmt.Fprintf(t.out, "%s: its owner %s %s is not there, and is left out\n", s.part, owner.Kind, owner.Name)
			}
			continue
		}
		owners = append(owners, owner)
	}
	s.body.SetOwnerReferences(owners)
	return nil
}

// ownEarly sets the owner references of what was written before its owners, and nothing else: controllers have written it since.
func (t *takeBack) ownEarly(ctx context.Context) error {
	var failed []error
	for _, p := range t.early {
		if err := t.ownLate(ctx, p); err != nil {
			failed = append(failed, fmt.Errorf("%s: its owners: %w", p, err))
		}
	}
	return errors.Join(failed...)
}

func (t *takeBack) ownLate(ctx context.Context, p *part) (err error) {
	for range mostAttempts {
		var s *step
		if s, err = t.stepFor(ctx, p); err == nil {
			err = t.own(ctx, s, true)
		}
		if err != nil || s.live == nil || equality.Semantic.DeepEqual(s.live.GetOwnerReferences(), s.body.GetOwnerReferences()) {
			return err // without a live object: it is gone already
		}
		owned := s.live.DeepCopy()
		owned.SetOwnerReferences(s.body.GetOwnerReferences())
		written := &unstructured.Unstructured{}
		err = t.client.do(ctx, http.MethodPut, s.path+"?fieldManager="+takeBackManager, owned, written)
		if apierrors.IsConflict(err) {
			continue
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(t.out, "%s: has its owners\n", p)
		return t.put(ctx, s, "", written, func(now *unstructured.Unstructured) bool {
			now.SetManagedFields(slices.DeleteFunc(now.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager == takeBackManager }))
			return true
		})
	}
	return err
}

// uidOf returns the present uid of an owner; empty: it does not exist.
func (t *takeBack) uidOf(ctx context.Context, namespace string, owner metav1.OwnerReference) (types.UID, error) {
	if now, ok := t.uids[owner.UID]; ok {
		return now, nil
	}
	gv, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil {
		return "", err
	}
	served, err := t.served(ctx, gv)
	if apierrors.IsNotFound(err) {
		return "", nil // the version is no longer served, so the owner does not exist either
	}
	if err != nil {
		return "", err
	}
	kind, ok := served.byKind[owner.Kind]
	if !ok {
		delete(t.resources, gv.String()) // its definition may be restored next
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

// bind binds the Secret of a token to the ServiceAccount with its present uid, and keeps the token of the live Secret: with the old uid, the Secret
// would be deleted. If there is no live token, a new one is created.
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

// claim sets the present uids in a volume and its claim. If a claim is bound to a volume with the uid of another claim, a controller marks it as
// lost for good; if a volume has the uid of another claim, the controller takes its claim for deleted, and deletes the volume's content. The claim
// is therefore written as not bound yet, with the name of the same volume, because any other volume would be empty.
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

// generatedOf removes from a Job the selector and the labels that the server generated from the Job's old uid, and sets those of the live
// Job, if there is one: the server refuses others.
func generatedOf(job, live *unstructured.Unstructured) {
	fields := [][]string{{"spec", "selector"}}
	for _, label := range []string{"controller-uid", batchv1.ControllerUidLabel} {
		fields = append(fields, []string{"spec", "template", "metadata", "labels", label})
	}
	for _, field := range fields {
		inPlace(job, live, field)
	}
}

// inPlace replaces a field by its live value, or removes it when there is none.
func inPlace(body, live *unstructured.Unstructured, field []string) {
	unstructured.RemoveNestedField(body.Object, field...)
	if live == nil {
		return
	}
	if now, ok, _ := unstructured.NestedFieldCopy(live.Object, field...); ok {
		_ = unstructured.SetNestedField(body.Object, now, field...) // if a parent is not a map, the server refuses the object
	}
}
