package fieldmanager

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rowlock/rowlock/resources/equality"
)

// KeepTimestamps gives the managedFields of obj the times of those of live where nothing else differs between the two,
// so that a write that changes nothing has no effect. It comes after everything that may change obj. Objects without
// metadata are left unchanged.
func KeepTimestamps(live, obj runtime.Object) {
	liveMeta, err := meta.Accessor(live)
	if err != nil {
		return
	}
	objMeta, err := meta.Accessor(obj)
	if err != nil {
		return
	}
	if keepRawTimes(live, obj) {
		return
	}
	before, after := liveMeta.GetManagedFields(), objMeta.GetManagedFields()
	if !onlyTimesDiffer(before, after) || !equalButTimes(live, obj) {
		return
	}
	after = slices.Clone(after)
	for i := range after {
		after[i].Time = before[i].Time
	}
	objMeta.SetManagedFields(after)
}

// onlyTimesDiffer reports whether two managedFields have different times and are otherwise equal.
func onlyTimesDiffer(a, b []metav1.ManagedFieldsEntry) bool {
	if len(a) != len(b) {
		return false
	}
	times := false
	for i := range a {
		times = times || !a[i].Time.Equal(b[i].Time)
		if !sameEntry(a[i], b[i]) {
			return false
		}
	}
	return times
}

func sameEntry(a, b metav1.ManagedFieldsEntry) bool {
	if (a.FieldsV1 == nil) != (b.FieldsV1 == nil) || a.FieldsV1 != nil && !a.FieldsV1.Equal(*b.FieldsV1) {
		return false
	}
	a.FieldsV1, a.Time, b.FieldsV1, b.Time = nil, nil, nil, nil
	return a == b
}

// ignoringTimes is semantic equality except for the times of managedFields.
var ignoringTimes = equality.With(sameEntry)

func equalButTimes(a, b runtime.Object) bool {
	x, ok := a.(*unstructured.Unstructured)
	y, ok2 := b.(*unstructured.Unstructured)
	if ok && ok2 {
		return ignoringTimes.DeepEqual(withoutManagedFields(x.Object), withoutManagedFields(y.Object))
	}
	return ignoringTimes.DeepEqual(a, b)
}
