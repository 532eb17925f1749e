package fieldmanager

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

const (
	// lastApplied is the annotation in which kubectl apply without --server-side keeps the object that it sent;
	// upstream lets kubectl migrate from it.
	lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
	// clientSideManager is the manager that the annotation concerns.
	clientSideManager = "kubectl"
	// firstApply owns the fields that an object had before the first Apply.
	firstApply = "before-first-apply"
)

// apply is Apply without upstream's manager; if that is needed, it returns the reason, and has changed nothing.
// Upstream words all errors, conflicts among them.
func (m *Manager) apply(live, patch runtime.Object, manager string, force bool) (out runtime.Object, reason string) {
	w, reason := m.begin()
	if reason != "" {
		return nil, reason
	}
	defer w.end()
	liveMeta, err := meta.Accessor(live)
	if err != nil {
		return nil, "no metadata"
	}
	u, ok := patch.(*unstructured.Unstructured)
	if !ok || u.GroupVersionKind() != m.config.Kind {
		return nil, "patch"
	}
	if _, sent, _ := unstructured.NestedFieldNoCopy(u.Object, "metadata", "managedFields"); sent || !w.types.schema.valid(u.Object, true) {
		return nil, "patch"
	}
	if manager == clientSideManager && (liveMeta.GetAnnotations()[lastApplied] != "" || u.GetAnnotations()[lastApplied] != "") {
		return nil, "last applied"
	}
	entries, reason := w.start(live, liveMeta)
	if reason != "" {
		return nil, reason
	}
	own, entries := w.own(entries, manager, metav1.ManagedFieldsOperationApply)
	r, reason := w.result(entries, own, live, u.Object)
	if reason != "" {
		return nil, reason
	}
	for i := range entries {
		e := &entries[i]
		if e != own && !force && e.owns(r.changed) {
			return nil, "conflict"
		}
		if e != own {
			e.lose(w.arena, r.changed.plus(r.removed), w.types.schema)
		}
	}
	own.replace(r.applied.minus(stripped))
	if !r.same {
		own.time = w.now()
	}
	return w.finish(live, r, dropEmpty(entries))
}

// start returns the entries that an Apply starts from. The first Apply assigns an owner to the existing fields.
func (w write) start(live runtime.Object, liveMeta metav1.Object) ([]entry, string) {
	entries, reason := readEntries(liveMeta.GetManagedFields())
	if reason != "" {
		return nil, reason
	}
	if len(entries) == 0 {
		empty, err := w.config.Scheme.New(w.config.Kind)
		if err != nil {
			return nil, "kind"
		}
		if u, ok := empty.(*unstructured.Unstructured); ok {
			u.SetGroupVersionKind(w.config.Kind)
		}
		return w.updated(nil, empty, live, firstApply)
	}
	if !w.sameVersion(entries) {
		return nil, "version"
	}
	for i := range entries {
		if _, ok := scanPathSet(entries[i].text, w.types.schema, nil); !ok {
			return nil, "foreign managedFields"
		}
	}
	return entries, ""
}

// applied is the result of an Apply. All its sets are without the reset fields.
type applied struct {
	object           any // the result in the version of the request, which shares unchanged parts with the live object
	same             bool
	changed, removed pathSet
	applied          pathSet // the fields in the patch
}

// result merges the patch into the object, and removes the fields that its manager applied before and no longer
// applies.
func (w write) result(entries []entry, own *entry, live runtime.Object, patch map[string]any) (r applied, reason string) {
	object, reason := w.untyped(live)
	if reason != "" {
		return r, reason
	}
	if r.object, r.changed, r.same, reason = merge(w.arena, w.types.schema, object, patch); reason != "" {
		return r, reason
	}
	var ok bool
	if r.applied, ok = pathsOf(w.arena, w.types.schema, patch); !ok {
		return r, "schema"
	}
	r.applied = r.applied.minusTrees(w.types.reset)
	if last := own.paths(w.arena); len(last.minus(r.applied)) > 0 {
		owned := r.applied
		for i := range entries {
			if e := &entries[i]; e != own {
				owned = owned.plus(e.paths(w.arena))
			}
		}
		pruned, ok := prune(w.arena, w.types.schema, r.object, last, owned).(map[string]any)
		if !ok {
			return r, "prune"
		}
		r.object, r.same = pruned, equalUntyped(object, pruned)
		if r.changed, r.removed, reason = diffUntyped(w.arena, w.types.schema, object, pruned); reason != "" {
			return r, reason
		}
	}
	r.changed, r.removed = r.changed.minusTrees(w.types.reset), r.removed.minusTrees(w.types.reset)
	return r, ""
}

// untyped returns an object in the version of the request as maps, without its managedFields.
func (w write) untyped(live runtime.Object) (map[string]any, string) {
	obj, err := w.convertor.ConvertToVersion(live, w.config.Kind.GroupVersion())
	if err != nil {
		return nil, "conversion"
	}
	var content map[string]any
	if u, ok := obj.(*unstructured.Unstructured); ok {
		content = withoutManagedFields(u.Object)
	} else if content, ok = structured(live, obj); !ok {
		return nil, "kind"
	}
	if !w.types.schema.valid(content, false) {
		return nil, "schema"
	}
	return content, ""
}

// structured returns a typed object as maps.
func structured(live, obj runtime.Object) (map[string]any, bool) {
	if obj == live {
		obj = obj.DeepCopyObject() // already in the version: an empty object
	}
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return nil, false
	}
	accessor.SetManagedFields(nil)
	v, err := value.NewValueReflect(obj)
	if err != nil {
		return nil, false
	}
	content, ok := v.Unstructured().(map[string]any)
	return content, ok
}

// withoutManagedFields returns a copy without managedFields, which shares all other parts.
func withoutManagedFields(object map[string]any) map[string]any {
	metadata, ok := object["metadata"].(map[string]any)
	if _, there := metadata["managedFields"]; !ok || !there {
		return object
	}
	out := make(map[string]any, len(object))
	for k, v := range object {
		out[k] = v
	}
	rest := make(map[string]any, len(metadata))
	for k, v := range metadata {
		if k != "managedFields" {
			rest[k] = v
		}
	}
	out["metadata"] = rest
	return out
}

// versioned makes an object of the request's kind from maps.
func (w write) versioned(u *unstructured.Unstructured) (runtime.Object, error) {
	if w.config.FromUntyped != nil {
		if obj, err := w.config.Scheme.New(w.config.Kind); err == nil && w.config.FromUntyped(u, obj) {
			return obj, nil
		}
	}
	return w.convertor.ConvertToVersion(u, w.config.Kind.GroupVersion())
}

// finish converts the result to the hub form. If the patch changed nothing, that is the live object, so that at most
// the ownership is written.
func (w write) finish(live runtime.Object, r applied, entries []entry) (runtime.Object, string) {
	var out runtime.Object
	if r.same {
		out = live.DeepCopyObject()
	} else {
		u := &unstructured.Unstructured{Object: r.object.(map[string]any)}
		if w.config.Types != nil {
			u = u.DeepCopy() // it shares parts with live, and defaulting writes to it
		}
		versioned, err := w.versioned(u)
		if err != nil {
			return nil, "conversion"
		}
		w.config.Scheme.Default(versioned)
		if out, err = w.convertor.ConvertToVersion(versioned, w.config.Hub); err != nil {
			return nil, "conversion"
		}
	}
	accessor, err := meta.Accessor(out)
	if err != nil {
		return nil, "no metadata"
	}
	setManaged(accessor, writeEntries(entries))
	return out, ""
}
