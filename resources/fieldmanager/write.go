package fieldmanager

import (
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// write is one Update or Apply in progress.
type write struct {
	*Manager
	types *kindTypes
	arena *arena
}

func (m *Manager) begin() (w write, reason string) {
	types, err := m.types()
	if err != nil {
		return write{}, "kind"
	}
	if m.config.ResetFilter != nil {
		return write{}, "reset filter"
	}
	return write{m, types, arenas.Get().(*arena)}, ""
}

// end releases the memory of the write's sets.
func (w write) end() { w.arena.release() }

// updated returns the entries after a change that is not an Apply.
func (w write) updated(entries []entry, live, obj runtime.Object, manager string) ([]entry, string) {
	if !w.sameVersion(entries) {
		return nil, "version"
	}
	changed, removed, reason := w.compare(live, obj)
	if reason != "" {
		return nil, reason
	}
	changed = changed.minusTrees(w.types.reset)
	lost := changed.plus(removed.minusTrees(w.types.reset))
	for i := range entries {
		if !entries[i].lose(w.arena, lost, w.types.schema) {
			return nil, "foreign managedFields"
		}
	}
	entries = dropEmpty(entries)
	if fields := changed.minus(stripped); len(fields) > 0 {
		own, all := w.own(entries, manager, metav1.ManagedFieldsOperationUpdate)
		own.replace(own.paths(w.arena).plus(fields))
		own.time = w.now()
		entries = all
	}
	if countUpdaters(entries) > maxUpdaters {
		return nil, "many managers"
	}
	return entries, ""
}

func (w write) sameVersion(entries []entry) bool {
	return !slices.ContainsFunc(entries, func(e entry) bool { return e.version != w.version })
}

// own returns the entry of the writing manager, adding it if there is none.
func (w write) own(entries []entry, manager string, operation metav1.ManagedFieldsOperationType) (*entry, []entry) {
	if manager == "" {
		manager = "unknown"
	}
	id := newIdentity(manager, operation, w.version, w.config.Subresource)
	i := slices.IndexFunc(entries, func(e entry) bool { return e.id == id })
	if i < 0 {
		i = len(entries)
		entries = append(entries, entry{id: id, version: w.version})
	}
	return &entries[i], entries
}

func (w write) now() *metav1.Time { return &metav1.Time{Time: w.config.Now().UTC()} }

// compare converts two objects to the version of the request and walks them.
func (w write) compare(live, obj runtime.Object) (changed, removed pathSet, reason string) {
	gv := w.config.Kind.GroupVersion()
	after, err := w.convertor.ConvertToVersion(obj, gv)
	if err != nil {
		return nil, nil, "conversion"
	}
	before, err := w.convertor.ConvertToVersion(live, gv)
	if err != nil {
		return nil, nil, "conversion"
	}
	if w.types.node == nil {
		old, ok := before.(*unstructured.Unstructured)
		new, ok2 := after.(*unstructured.Unstructured)
		if !ok || !ok2 {
			return nil, nil, "kind"
		}
		return diffUntyped(w.arena, w.types.schema, old.Object, new.Object)
	}
	old, new := reflect.ValueOf(before), reflect.ValueOf(after)
	if old.Type().Elem() != w.types.goType || new.Type().Elem() != w.types.goType {
		return nil, nil, "kind"
	}
	return diff(w.arena, w.types.node, old, new)
}
