package untyped

import (
	"context"
	"fmt"
	"maps"

	"k8s.io/apiextensions-apiserver/pkg/crdserverscheme"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources"
)

// Scheme makes, recognises, defaults and converts the objects of one kind. It leaves other objects (a Scale) to another scheme.
type Scheme struct {
	Kind schema.GroupKind
	// Defaults sets the missing fields of object, which is in the given version, to their defaults. May be nil.
	Defaults func(version string, object map[string]any)
	// Coerce treats an object that a client sent as decoding into a Go type would: it drops unknown fields, and returns their paths when track
	// is set. May be nil.
	Coerce func(u *unstructured.Unstructured, track bool) (unknown []string, err error)
	// Clean reports whether Coerce would leave object, whose apiVersion is the given version, unchanged and return no paths. Nil: that is not
	// known.
	Clean func(version string, object map[string]any) bool
	// Coerced does the same to an object that is to be stored, or was converted. May be nil.
	Coerced func(u *unstructured.Unstructured) error
	// Repair does the same to a stored object, and drops fields that would be errors. May be nil.
	Repair func(u *unstructured.Unstructured)
	// Prune drops the unknown fields, but no nulls, of object, which was converted to the given version. May be nil.
	Prune func(version string, object map[string]any)
	// Conversion converts object from one version to another, except for apiVersion, unless ctx ends before. Nil: all versions look the same.
	Conversion func(ctx context.Context, object map[string]any, from, to string) error
	// SelectableFields are the fields that selectors may name besides metadata.name and metadata.namespace.
	SelectableFields []string
	// WithoutNamespace is set for cluster-scoped objects, which cannot be selected by namespace either.
	WithoutNamespace bool
	// Others are the kinds with Go types.
	Others resources.Scheme
}

var _ resources.Scheme = (*Scheme)(nil)

// New returns an empty object of a kind.
func (s *Scheme) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	if kind.GroupKind() != s.Kind {
		return s.Others.New(kind)
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u, nil
}

// ObjectKinds returns the kind in the object.
func (s *Scheme) ObjectKinds(obj runtime.Object) ([]schema.GroupVersionKind, bool, error) {
	if _, ok := obj.(runtime.Unstructured); ok {
		return crdserverscheme.NewUnstructuredObjectTyper().ObjectKinds(obj)
	}
	return s.Others.ObjectKinds(obj)
}

// Recognizes reports whether there is such a kind.
func (s *Scheme) Recognizes(kind schema.GroupVersionKind) bool {
	return kind.GroupKind() == s.Kind || s.Others.Recognizes(kind)
}

// Default sets the defaults of the version that an object is in. An object of another kind, from history, has none.
func (s *Scheme) Default(obj runtime.Object) {
	u, ok := obj.(*unstructured.Unstructured)
	switch {
	case !ok:
		s.Others.Default(obj)
	case s.Defaults != nil && u.GroupVersionKind().GroupKind() == s.Kind:
		s.Defaults(u.GroupVersionKind().Version, u.Object)
	}
}

// Complete brings a stored object to the present form of its version: it drops unknown fields, and sets the defaults.
func (s *Scheme) Complete(obj runtime.Object) {
	if u, ok := obj.(*unstructured.Unstructured); ok && s.Repair != nil {
		s.Repair(u)
	}
	s.Default(obj)
}

// Settle is Complete for an object that is to be stored. Errors describe invalid metadata of the object, or of one within it.
func (s *Scheme) Settle(obj runtime.Object) error {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		if err := s.coerced(u); err != nil {
			return err
		}
	}
	s.Default(obj)
	return nil
}

func (s *Scheme) coerced(u *unstructured.Unstructured) error {
	if s.Coerced == nil {
		return nil
	}
	return s.Coerced(u)
}

// ConvertToVersion returns an object in another version. in may be changed.
func (s *Scheme) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	return s.ConvertInContext(context.Background(), in, target)
}

// ConvertInContext is ConvertToVersion for a request: a conversion by a webhook takes no longer than ctx lasts.
func (s *Scheme) ConvertInContext(ctx context.Context, in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	return s.convert(ctx, in, target, s.coerced)
}

// ConvertFields is ConvertToVersion for field management, which has to see the object as it was sent: a null that is not allowed stays, so that
// validation refuses it.
func (s *Scheme) ConvertFields(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	return s.convert(context.Background(), in, target, func(u *unstructured.Unstructured) error {
		if s.Prune != nil {
			s.Prune(u.GroupVersionKind().Version, u.Object)
		}
		return nil
	})
}

// ForAdmission is the convertor for plugins. They see all fields of the object, also those that the version does not have: they return the
// object, and no field may be lost. The version in which the object is written then prunes it.
func (s *Scheme) ForAdmission() runtime.ObjectConvertor { return whole{s} }

type whole struct{ *Scheme }

// ConvertToVersion implements runtime.ObjectConvertor.
func (w whole) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	if u, ok := in.(*unstructured.Unstructured); ok && u.GetKind() != w.Kind.Kind {
		// A plugin has changed the kind, which the rules of the type refuse.
		if to, ok := target.KindForGroupVersionKinds([]schema.GroupVersionKind{u.GroupVersionKind()}); ok && to.Group == w.Kind.Group {
			out := u.DeepCopy()
			out.SetGroupVersionKind(to)
			return out, nil
		}
	}
	return w.convert(context.Background(), in, target, func(*unstructured.Unstructured) error { return nil })
}

// Convert implements runtime.ObjectConvertor.
func (w whole) Convert(in, out, context any) error {
	return w.convertInto(in, out, context, w.ConvertToVersion)
}

func (s *Scheme) convert(ctx context.Context, in runtime.Object, target runtime.GroupVersioner, settle func(*unstructured.Unstructured) error) (runtime.Object, error) {
	u, ok := in.(*unstructured.Unstructured)
	if !ok {
		return s.Others.ConvertToVersion(in, target)
	}
	from := u.GroupVersionKind()
	to, ok := target.KindForGroupVersionKinds([]schema.GroupVersionKind{from})
	switch { // the texts are upstream's converter's
	case !ok:
		return nil, fmt.Errorf("%v is unstructured and is not suitable for converting to %q", from, target)
	case to.Group != s.Kind.Group: // history may have objects of another kind
		return nil, fmt.Errorf("request to convert CR to an invalid group/version: %s", to.GroupVersion())
	}
	if to == from {
		return in, nil
	}
	out := u.DeepCopy()
	if s.Conversion != nil {
		if err := s.Conversion(ctx, out.Object, from.Version, to.Version); err != nil {
			return nil, err
		}
	}
	out.SetGroupVersionKind(to)
	if err := settle(out); err != nil {
		return nil, err
	}
	return out, nil
}

// Convert converts in to out; context is the version of out. Nil: the version in out itself. Admission uses it to read back the objects of
// plugins. The rules of the type refuse whatever a webhook has changed that is not allowed, its kind included.
func (s *Scheme) Convert(in, out, context any) error {
	return s.convertInto(in, out, context, s.ConvertToVersion)
}

func (s *Scheme) convertInto(in, out, context any, convert func(runtime.Object, runtime.GroupVersioner) (runtime.Object, error)) error {
	from, fromOK := in.(*unstructured.Unstructured)
	into, intoOK := out.(*unstructured.Unstructured)
	if !fromOK || !intoOK {
		return s.Others.Convert(in, out, context)
	}
	target, versioned := context.(runtime.GroupVersioner)
	if !versioned {
		target = into.GroupVersionKind().GroupVersion()
	}
	if from.GroupVersionKind().GroupVersion() == target {
		into.Object = maps.Clone(from.Object) // admission sets the kind of one of the two
		return nil
	}
	converted, err := convert(from, target)
	if err != nil {
		return err
	}
	into.Object = converted.(*unstructured.Unstructured).Object
	return nil
}

// ConvertFieldLabel refuses fields that are not selectable.
func (s *Scheme) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	if label == "metadata.name" || label == "metadata.namespace" && !s.WithoutNamespace {
		return label, value, nil
	}
	for _, f := range s.SelectableFields {
		if f == label {
			return label, value, nil
		}
	}
	return "", "", fmt.Errorf("field label not supported: %s", label)
}
