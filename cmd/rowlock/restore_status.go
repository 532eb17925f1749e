package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// complete restores the status and the field managers of an object that has been written. A user may lack the right to write the status: RBAC's role
// admin has none for that of workloads. That is reported and is no error, since controllers set the status again. Nobody sets the field managers again.
func (t *takeBack) complete(ctx context.Context, s *step, written *unstructured.Unstructured) error {
	after := written.GetManagedFields()
	err := t.restoreStatus(ctx, s, written)
	if apierrors.IsForbidden(err) {
		fmt.Fprintf(t.out, "%s: its status was left: %v\n", s.part, err)
	} else if err != nil {
		return err
	}
	had := s.object.GetManagedFields()
	if len(had) == 0 {
		return nil
	}
	err = t.put(ctx, s, "", written, func(now *unstructured.Unstructured) bool {
		managers := had
		if s.raced {
			managers = withLater(had, after, now.GetManagedFields())
		}
		now.SetManagedFields(managers)
		return true
	})
	if err != nil {
		return fmt.Errorf("its field managers were not restored: %w", err)
	}
	return nil
}

// restoreStatus restores the status, unless a controller has set it since the object was written.
func (t *takeBack) restoreStatus(ctx context.Context, s *step, written *unstructured.Unstructured) error {
	status, has := s.object.Object["status"]
	if class, ok, _ := unstructured.NestedFieldNoCopy(written.Object, "status", "qosClass"); ok && has && s.resource == "pods" {
		_ = unstructured.SetNestedField(s.object.Object, class, "status", "qosClass") // of the present resources, which a LimitRange may change
	}
	was := written.Object["status"]
	if !s.status || !has || s.leaveStatus || equality.Semantic.DeepEqual(was, status) {
		return nil
	}
	return t.put(ctx, s, "/status", written, func(now *unstructured.Unstructured) bool {
		if !equality.Semantic.DeepEqual(now.Object["status"], was) {
			fmt.Fprintf(t.out, "%s: its status was left: another client has set it meanwhile\n", s.part)
			return false
		}
		now.Object["status"] = status
		return true
	})
}

// put makes a change of an object, based on its last write here. If another client has written the object since, put makes the change of that state.
// change returns false if there is nothing to change.
func (t *takeBack) put(ctx context.Context, s *step, subresource string, o *unstructured.Unstructured, change func(now *unstructured.Unstructured) bool) error {
	uid := o.GetUID()
	for attempts := 1; change(o); attempts++ {
		written := &unstructured.Unstructured{}
		err := t.client.do(ctx, http.MethodPut, s.path+subresource+"?fieldManager="+takeBackManager, o, written)
		if err == nil {
			o.Object = written.Object
			return nil
		}
		if !apierrors.IsConflict(err) {
			return err
		}
		if attempts == mostAttempts {
			return changedMeanwhile(err)
		}
		live := &unstructured.Unstructured{}
		if err := t.client.do(ctx, http.MethodGet, s.path, nil, live); err != nil {
			return err
		}
		if live.GetUID() != uid {
			return changedMeanwhile(errors.New("there is another object of its name"))
		}
		s.raced, o.Object = true, live.Object
	}
	return nil
}

func changedMeanwhile(err error) error {
	return fmt.Errorf("it has changed meanwhile, run it again: %w", err)
}

// withLater returns field managers of a backup and those that have written the object since it was restored: after has those at that moment,
// now the present ones.
func withLater(had, after, now []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	all := slices.Clone(had)
	for _, by := range now {
		if by.Manager == takeBackManager || slices.ContainsFunc(after, func(e metav1.ManagedFieldsEntry) bool { return equality.Semantic.DeepEqual(e, by) }) {
			continue
		}
		i := slices.IndexFunc(all, func(e metav1.ManagedFieldsEntry) bool {
			return e.Manager == by.Manager && e.Operation == by.Operation && e.APIVersion == by.APIVersion && e.Subresource == by.Subresource
		})
		if i < 0 {
			all = append(all, by)
			continue
		}
		by.FieldsV1 = union(all[i].FieldsV1, by.FieldsV1)
		all[i] = by
	}
	return all
}

// union returns the fields of both sets.
func union(a, b *metav1.FieldsV1) *metav1.FieldsV1 {
	all := &fieldpath.Set{}
	for _, fields := range []*metav1.FieldsV1{a, b} {
		set := &fieldpath.Set{}
		if fields == nil || set.FromJSON(fields.GetRawReader()) != nil {
			continue // the server has no such entries
		}
		all = all.Union(set)
	}
	raw, err := all.ToJSON()
	if err != nil {
		return b
	}
	return metav1.NewFieldsV1(string(raw))
}
