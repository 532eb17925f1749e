package resources

import (
	"cmp"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Served is a type as one version of a group shows it.
type Served struct {
	*Type
	schema.GroupVersionKind
	// Versions are the versions of the group that serve the resource, the preferred one first.
	Versions []schema.GroupVersion

	asStored bool
	life     *life
	// selects is the life of the selectable fields; nil: there are none that may go.
	selects *life
	memo    memo
}

// newServed returns the Served of a type in a version: the one of the earlier group (before, may be nil) when nothing
// has changed.
func newServed(t *Type, gv schema.GroupVersion, versions []schema.GroupVersion, before *Group) *Served {
	s := &Served{Type: t, GroupVersionKind: gv.WithKind(t.Kind), Versions: versions, life: newLife()}
	if len(t.selectable()) > 0 {
		s.selects = newLife()
	}
	if before == nil {
		return s
	}
	old := before.served[inVersion{gv.Version, t.Resource}]
	switch {
	case old == nil:
		return s
	case old.Type == t && slices.Equal(old.Versions, versions):
		return old
	case old.Type == t || t.Form != "" && t.Form == old.Form && t.Renewed == old.Renewed:
		s.life = old.life
		if s.selects != nil && !slices.ContainsFunc(old.selectable(), func(f string) bool { return !slices.Contains(t.selectable(), f) }) {
			s.selects = cmp.Or(old.selects, s.selects)
		}
	}
	return s
}

// selectable are the fields that objects define as selectable (OpenAPI.SelectableFields), which may go while the type stays.
func (t *Type) selectable() []string {
	if t.OpenAPI == nil {
		return nil
	}
	return t.OpenAPI.SelectableFields
}

// GVR is the resource in the version it is served in.
func (s *Served) GVR() schema.GroupVersionResource {
	return s.GroupVersion().WithResource(s.Resource)
}

// ReturnsDeleted tells whether a delete answers with the object, not with a Status.
func (s *Served) ReturnsDeleted() bool {
	return s.ReturnDeletedObject || slices.Contains(s.ReturnDeletedIn, s.GroupVersionKind.Version)
}

// Ended is closed when the version is no longer served, or its objects have other bytes than before (Type.Form and
// Type.Renewed): watches then end, so that their clients list again. A replacement with the same of both does not close it.
func (s *Served) Ended() <-chan struct{} {
	if s.life == nil {
		return nil
	}
	return s.life.ended
}

// SelectionEnded is closed when Ended is, and when one of the selectable fields of a definition goes: watches that select by them then end.
func (s *Served) SelectionEnded() <-chan struct{} {
	if s.selects == nil {
		return s.Ended()
	}
	return s.selects.ended
}

// Memo returns the result of build for this type in this version under a key, building it once: a field manager, say.
// It is dropped with the last catalog that has the Served.
func (s *Served) Memo(key any, build func() (any, error)) (any, error) { return s.memo.get(key, build) }

// life identifies a period in which the bytes that a version shows stay the same. It passes from one Served to the
// next.
type life struct {
	once  sync.Once
	ended chan struct{}
}

func newLife() *life { return &life{ended: make(chan struct{})} }

func (l *life) end() { l.once.Do(func() { close(l.ended) }) }

// memo keeps results derived from an immutable value, as long as that lives.
type memo struct{ entries sync.Map }

func (m *memo) get(key any, build func() (any, error)) (any, error) {
	type entry struct {
		once sync.Once
		v    any
		err  error
	}
	e, ok := m.entries.Load(key)
	if !ok {
		e, _ = m.entries.LoadOrStore(key, &entry{})
	}
	made := e.(*entry)
	made.once.Do(func() { made.v, made.err = build() })
	return made.v, made.err
}
