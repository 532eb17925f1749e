package fieldmanager

import (
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// Scheme makes, defaults and converts the objects of a kind. *runtime.Scheme is one.
type Scheme interface {
	runtime.ObjectCreater
	runtime.ObjectDefaulter
	runtime.ObjectConvertor
}

// Config configures a Manager.
type Config struct {
	// Scheme makes, converts and defaults the objects.
	Scheme Scheme
	// Kind is the kind that requests carry, in the version of the request.
	Kind schema.GroupVersionKind
	// Hub is the version of the objects that Update and Apply are given.
	Hub schema.GroupVersion
	// Versions are the versions that Kind is served in. Entries of managedFields in other versions are dropped by the
	// next write. Nil: the version of Kind alone.
	Versions []schema.GroupVersion
	// Subresource is the name of the subresource written through, empty for the type itself.
	Subresource string
	// ResetFields are the fields that a write through this path leaves alone, per version: they are never owned by it.
	ResetFields map[fieldpath.APIVersion]*fieldpath.Set
	// ResetFilter says the same by filters (rest.ResetFieldsFilterStrategy). At most one of the two is set.
	ResetFilter map[fieldpath.APIVersion]fieldpath.Filter
	// Types converts custom resources; nil for built-in types.
	Types managedfields.TypeConverter
	// FromUntyped, when set, makes an object of Kind from one without a Go type, as the conversion of Scheme would. into is empty. If it
	// returns false, Scheme does the conversion, and into must be discarded.
	FromUntyped func(from *unstructured.Unstructured, into runtime.Object) bool
	// Now is the clock that writes are stamped with. Nil: time.Now.
	Now func() time.Time
	// Fallback is called with the reason when upstream's manager is used: one of a few fixed texts, fit for the label of a metric. May be
	// nil.
	Fallback func(reason string)
}

// Keeper caches results derived from a schema, as long as there is room. The Types of a Config may be one.
type Keeper interface {
	// Keep returns the value of a key, or makes it. An error is not kept.
	Keep(key any, build func() (any, error)) (any, error)
}

// Manager maintains the managedFields of one kind in one version and subresource. It is cheap to make: the schema is compiled on first
// use. It is safe for concurrent use.
type Manager struct {
	config    Config
	convertor runtime.ObjectConvertor
	version   string
	types     func() (*kindTypes, error)
	upstream  func() (*managedfields.FieldManager, error)
}

// New returns a Manager.
func New(c Config) (*Manager, error) {
	if c.Scheme == nil || c.Kind.Empty() || c.Hub.Empty() {
		return nil, errors.New("a field manager needs a scheme, a kind and a hub version")
	}
	if c.ResetFields != nil && c.ResetFilter != nil {
		return nil, errors.New("reset fields are given as sets or as filters, not both")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Fallback == nil {
		c.Fallback = func(string) {}
	}
	m := &Manager{
		config:    c,
		convertor: c.convertor(),
		version:   c.Kind.GroupVersion().String(),
		types:     sync.OnceValues(c.newKindTypes),
		upstream:  sync.OnceValues(c.newUpstream),
	}
	if keeper, ok := c.Types.(Keeper); ok {
		m.types = func() (*kindTypes, error) {
			v, err := keeper.Keep(m, func() (any, error) { return c.newKindTypes() })
			if err != nil {
				return nil, err
			}
			return v.(*kindTypes), nil
		}
	}
	return m, nil
}

func (c Config) versions() []schema.GroupVersion {
	if c.Versions == nil {
		return []schema.GroupVersion{c.Kind.GroupVersion()}
	}
	return c.Versions
}

// Create writes into obj, a new object in the hub form, the managedFields of its creation by any way other than Apply,
// and returns obj. To create by Apply, call that with an empty object as live.
func (m *Manager) Create(obj runtime.Object, manager string) runtime.Object {
	empty, err := m.config.Scheme.New(m.config.Kind)
	if err != nil {
		return obj // a scheme can make the kinds that it is configured for
	}
	return m.Update(empty, obj, manager)
}

// Update writes into obj the managedFields that follow from changing live into obj by any way other than Apply, and
// returns obj. Both are in the hub form, except that on a create live is an empty object of the request version. live
// is not changed. It does not fail: where managedFields cannot be computed, obj gets those of live.
func (m *Manager) Update(live, obj runtime.Object, manager string) runtime.Object {
	if fastpath.ManagedFields.On() {
		reason := m.update(live, obj, manager)
		if reason == "" {
			return obj
		}
		m.fallback(reason)
	}
	up, err := m.upstream()
	if err != nil {
		return obj // New has checked for all possible errors
	}
	return upstreamUpdate(up, live, obj, manager)
}

// Apply merges patch, an *unstructured.Unstructured in the request version, into live, which is in the hub form, and
// returns the result in the hub form with its managedFields. live is not changed. Where another manager owns a
// field that patch changes it fails with a StatusError of reason Conflict, unless force is set, which takes the field
// over (KEP-555, "Conflicts"); a patch that does not fit is a StatusError too, or an error that the caller answers
// with 500 as kube-apiserver does.
func (m *Manager) Apply(live, patch runtime.Object, manager string, force bool) (runtime.Object, error) {
	if fastpath.ManagedFields.On() {
		out, reason := m.apply(live, patch, manager, force)
		if reason == "" {
			return out, nil
		}
		m.fallback(reason)
	}
	up, err := m.upstream()
	if err != nil {
		return nil, err
	}
	return up.Apply(live, patch, manager, force)
}

// fallback counts a call of upstream's manager.
func (m *Manager) fallback(reason string) {
	fastpath.ManagedFields.Fallback()
	m.config.Fallback(reason)
}
