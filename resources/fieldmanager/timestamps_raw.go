package fieldmanager

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// keepRawTimes is KeepTimestamps for objects without a Go type whose managedFields are usual. It does nothing to others, because entries that
// differ may have the same meaning.
func keepRawTimes(live, obj runtime.Object) (done bool) {
	was, ok := live.(*unstructured.Unstructured)
	is, ok2 := obj.(*unstructured.Unstructured)
	if !ok || !ok2 || !fastpath.ManagedFields.On() {
		return false
	}
	before, after := rawEntries(was), rawEntries(is)
	if len(before) != len(after) {
		return true // upstream compares entries only if there are equally many
	}
	times, usual := false, true
	for i := range before {
		a, _ := before[i].(map[string]any)
		b, _ := after[i].(map[string]any)
		areUsual := isUsual(a) && isUsual(b)
		if areUsual && !sameRaw(a, b) {
			return true
		}
		usual = usual && areUsual
		times = times || areUsual && a["time"] != b["time"]
	}
	switch {
	case !usual:
		fastpath.ManagedFields.Fallback()
		return false
	case !times || !equalButTimes(live, obj):
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
	is.Object["metadata"].(map[string]any)["managedFields"] = kept
	return true
}

// rawEntries are the managedFields of an object.
func rawEntries(u *unstructured.Unstructured) []any {
	metadata, _ := u.Object["metadata"].(map[string]any)
	entries, _ := metadata["managedFields"].([]any)
	return entries
}

// isUsual reports whether upstream reads and writes an entry without any change to it.
func isUsual(entry map[string]any) bool {
	if entry == nil {
		return false
	}
	for name, v := range entry {
		text, _ := v.(string)
		switch name {
		case "manager", "operation", "apiVersion", "fieldsType", "subresource":
			if text == "" {
				return false
			}
		case "time":
			if at, err := time.Parse(time.RFC3339, text); err != nil || at.IsZero() || at.UTC().Format(time.RFC3339) != text {
				return false
			}
		case "fieldsV1":
			if fields, ok := v.(map[string]any); !ok || fields == nil {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// sameRaw reports whether two entries are equal except for the time.
func sameRaw(a, b map[string]any) bool {
	names := 0
	for name, v := range a {
		if name == "time" {
			continue
		}
		if w, there := b[name]; !there || !equalUntyped(v, w) {
			return false
		}
		names++
	}
	for name := range b {
		if name != "time" {
			names--
		}
	}
	return names == 0
}
