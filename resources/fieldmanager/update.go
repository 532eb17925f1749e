package fieldmanager

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// stripped are the fields that no manager owns.
var stripped = mustParse(`{"f:apiVersion":{},"f:kind":{},"f:metadata":{".":{},"f:clusterName":{},` +
	`"f:creationTimestamp":{},"f:generation":{},"f:managedFields":{},"f:name":{},"f:namespace":{},` +
	`"f:resourceVersion":{},"f:selfLink":{},"f:uid":{}}}`)

func mustParse(text string) pathSet {
	set, ok := parsePathSet(nil, text)
	if !ok {
		panic("fieldmanager: not the canonical form of a set: " + text)
	}
	return set
}

// update is Update without upstream's manager; if that is needed, it returns the reason, and has changed nothing.
func (m *Manager) update(live, obj runtime.Object, manager string) (reason string) {
	liveMeta, err := meta.Accessor(live)
	if err != nil {
		return "no metadata"
	}
	objMeta, err := meta.Accessor(obj)
	if err != nil {
		return "no metadata"
	}
	w, reason := m.begin()
	if reason != "" {
		return reason
	}
	defer w.end()
	before := objMeta.GetManagedFields()
	entries, reason := m.given(before, liveMeta)
	if reason != "" {
		return reason
	}
	if len(entries) == 0 && liveMeta.GetUID() != "" {
		// The object has no managedFields so far; for an existing object only an Apply starts them.
		objMeta.SetManagedFields(nil)
		return ""
	}
	objMeta.SetManagedFields(nil)
	entries, reason = w.updated(entries, live, obj, manager)
	if reason != "" {
		objMeta.SetManagedFields(before)
		return reason
	}
	setManaged(objMeta, writeEntries(entries))
	return ""
}

// given returns the entries that the write starts from: the client's if it may send them, otherwise those of the live
// object.
func (m *Manager) given(sent []metav1.ManagedFieldsEntry, live metav1.Object) ([]entry, string) {
	if m.config.Subresource == "" {
		if resets(sent) {
			return nil, ""
		}
		if len(sent) > 0 {
			return readEntries(sent)
		}
	}
	return readEntries(live.GetManagedFields())
}

// resets reports whether a client asks to drop all owners: by an empty list or a single empty entry.
func resets(sent []metav1.ManagedFieldsEntry) bool {
	switch len(sent) {
	case 0:
		return sent != nil
	case 1:
		return sent[0] == metav1.ManagedFieldsEntry{}
	}
	return false
}
