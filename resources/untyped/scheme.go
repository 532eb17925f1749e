package untyped

import (
	"context"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/crdserverscheme"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources"
)

// Scheme makes, recognises, defaults and converts the objects of one kind. What is of no such kind (a Scale) it leaves to
// another scheme.
type Scheme struct {
	Kind schema.GroupKind
	// Defaults fills in what object, which is in the given version, says nothing of. May be nil.
	Defaults func(version string, object map[string]any)
	// Coerce does to an object that was sent what decoding into a Go type would do: it drops what nobody knows, whose paths it
	// returns when track is set. May be nil.
	Coerce func(u *unstructured.Unstructured, track bool) (unknown []string, err error)
	// Clean tells whether Coerce would leave object, which says that it is in the given version, as it is, and nobody has to be told of
	// anything. May be nil: nobody knows.
	Clean func(version string, object map[string]any) bool
	// Coerced does it to an object that is to be stored, or was converted. May be nil.
	Coerced func(u *unstructured.Unstructured) error
	// Repair does it to an object that was stored, and drops what would be an error. May be nil.
	Repair func(u *unstructured.Unstructured)
	// Prune drops from object, which was converted into the given version, what nobody knows there, and no null. May be nil.
	Prune func(version string, object map[string]any)
	// Conversion changes object from one version into another, apiVersion aside, unless ctx ends before. Nil: all versions look the same.
	Conversion func(ctx context.Context, object map[string]any, from, to string) error
	// SelectableFields are the fields that selectors may name beside metadata.name and metadata.namespace.
	SelectableFields []string
	// WithoutNamespace is set where objects are in no namespace, and cannot be selected by it either.
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

// ObjectKinds returns the kind that an object says it has.
func (s *Scheme) ObjectKinds(obj runtime.Object) ([]schema.GroupVersionKind, bool, error) {
	if _, ok := obj.(runtime.Unstructured); ok {
		return crdserverscheme.NewUnstructuredObjectTyper().ObjectKinds(obj)
	}
	return s.Others.ObjectKinds(obj)
}

// Recognizes tells whether there is such a kind.
func (s *Scheme) Recognizes(kind schema.GroupVersionKind) bool {
	return kind.GroupKind() == s.Kind || s.Others.Recognizes(kind)
}

// Default fills in the defaults of the version that an object is in. An object that history has of another kind has none.
func (s *Scheme) Default(obj runtime.Object) {
	u, ok := obj.(*unstructured.Unstructured)
	switch {
	case !ok:
		s.Others.Default(obj)
	case s.Defaults != nil && u.GroupVersionKind().GroupKind() == s.Kind:
		s.Defaults(u.GroupVersionKind().Version, u.Object)
	}
}

// Complete makes an object that was stored one of the version that it is in: it drops what nobody knows, and fills in the defaults.
func (s *Scheme) Complete(obj runtime.Object) {
	if u, ok := obj.(*unstructured.Unstructured); ok && s.Repair != nil {
		s.Repair(u)
	}
	s.Default(obj)
}

// Settle is Complete for an object that is to be stored. Errors say what is wrong with its metadata, or with that of an object within it.
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

// ConvertInContext is ConvertToVersion for a request: who converts is asked no longer than ctx lasts.
func (s *Scheme) ConvertInContext(ctx context.Context, in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	return s.convert(ctx, in, target, s.coerced)
}

// ConvertFields is ConvertToVersion for the management of fields, which has to see what was sent: a null stays that is not allowed, for
// validation to refuse.
func (s *Scheme) ConvertFields(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	return s.convert(context.Background(), in, target, func(u *unstructured.Unstructured) error {
		if s.Prune != nil {
			s.Prune(u.GroupVersionKind().Version, u.Object)
		}
		return nil
	})
}

// ForAdmission is what plugins convert with. What they are shown has all that the object has, whether the version knows it or not: they give it
// back, and nothing is lost on the way. What is left of it is for the version to say in which the object is written.
func (s *Scheme) ForAdmission() runtime.ObjectConvertor { return whole{s} }

type whole struct{ *Scheme }

// ConvertToVersion implements runtime.ObjectConvertor.
func (w whole) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	if u, ok := in.(*unstructured.Unstructured); ok && u.GetKind() != w.Kind.Kind {
		// Who was shown it has made another kind of it, which the rules of the type refuse.
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
	if !ok || to.Group != s.Kind.Group { // history may have objects of another kind
		return nil, fmt.Errorf("%s cannot be converted into %s", from, target.Identifier())
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

// Convert makes out of in; context is the version that out is to be in. Nil: the one that it says it has. It is how admission gives back
// what it was shown. Whatever a webhook has made of that, its kind included, is for the rules of the type to refuse.
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
		into.Object = from.Object
		return nil
	}
	converted, err := convert(from, target)
	if err != nil {
		return err
	}
	into.Object = converted.(*unstructured.Unstructured).Object
	return nil
}

// ConvertFieldLabel refuses fields that cannot be selected by.
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
