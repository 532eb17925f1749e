package fieldmanager

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// keepRawTimes is KeepTimestamps for objects without a Go type whose raw managedFields are equal except for the times. It does nothing
// where they differ: their meaning may be the same.
func keepRawTimes(live, obj runtime.Object) (done bool) {
	if !fastpath.ManagedFields.On() {
		return false
	}
	before, after := rawEntries(live), rawEntries(obj)
	if before == nil || len(before) != len(after) {
		return false
	}
	times := false
	for i := range before {
		a, ok := before[i].(map[string]any)
		b, isToo := after[i].(map[string]any)
		if !ok || !isToo || !sameRaw(a, b) {
			return false
		}
		times = times || a["time"] != b["time"]
	}
	if !times || !equalButTimes(live, obj) {
		return true
	}
	kept := make([]any, len(after))
	for i := range after {
		entry := runtime.DeepCopyJSON(after[i].(map[string]any))
		delete(entry, "time")
		if at, there := before[i].(map[string]any)["time"]; there {
			entry["time"] = at
		}
		kept[i] = entry
	}
	obj.(*unstructured.Unstructured).Object["metadata"].(map[string]any)["managedFields"] = kept
	return true
}

// rawEntries are the managedFields of an object without a Go type. Nil: it has none, or is another one.
func rawEntries(obj runtime.Object) []any {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	metadata, _ := u.Object["metadata"].(map[string]any)
	entries, _ := metadata["managedFields"].([]any)
	return entries
}

// sameRaw reports whether two entries are equal except for the time, which is a text.
func sameRaw(a, b map[string]any) bool {
	names := 0
	for name, v := range a {
		if name == "time" {
			if _, ok := v.(string); !ok {
				return false
			}
			continue
		}
		if w, there := b[name]; !there || !equalUntyped(v, w) {
			return false
		}
		names++
	}
	for name, v := range b {
		if name == "time" {
			if _, ok := v.(string); !ok {
				return false
			}
			continue
		}
		names--
	}
	return names == 0
}
