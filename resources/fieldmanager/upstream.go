package fieldmanager

import (
	"fmt"
	goruntime "runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/klog/v2"
	openapiutil "k8s.io/kube-openapi/pkg/util"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	smdschema "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// newUpstream makes the manager for the cases that this package does not cover.
func (c Config) newUpstream() (*managedfields.FieldManager, error) {
	filters := c.ResetFilter
	if filters == nil && c.ResetFields != nil {
		filters = fieldpath.NewExcludeFilterSetMap(c.ResetFields)
	}
	build := managedfields.NewDefaultFieldManager
	if c.Types != nil {
		build = managedfields.NewDefaultCRDFieldManager
	}
	return build(c.typeConverter(), c.convertor(), c.Scheme, c.Scheme, c.Kind, c.Hub, c.Subresource, filters)
}

// TypeConverter returns the converter of objects of Kind by their schema.
func (c Config) TypeConverter() managedfields.TypeConverter { return c.typeConverter() }

// typeConverter is the converter of a custom resource, or the converter of the built-in types.
func (c Config) typeConverter() managedfields.TypeConverter {
	if c.Types != nil {
		return c.Types
	}
	return &builtinConverter{config: c, types: map[schema.GroupVersionKind]*typed.ParseableType{}}
}

// unsafeConvertor is the method of *runtime.Scheme beyond ObjectConvertor: its results may share memory with the input.
type unsafeConvertor interface {
	UnsafeConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error)
}

// fieldsConvertor is a scheme with a conversion for field management.
type fieldsConvertor interface {
	ConvertFields(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error)
}

type convertorOfFields struct {
	runtime.ObjectConvertor
	fields fieldsConvertor
}

func (c convertorOfFields) ConvertToVersion(in runtime.Object, gv runtime.GroupVersioner) (runtime.Object, error) {
	return c.fields.ConvertFields(in, gv)
}

// convertor converts without copying the input first, where the scheme can: this package does not write to parts that a converted object
// shares with an input from outside.
func (c Config) convertor() runtime.ObjectConvertor {
	if f, ok := c.Scheme.(fieldsConvertor); ok {
		return convertorOfFields{c.Scheme, f}
	}
	if u, ok := c.Scheme.(unsafeConvertor); ok {
		return sharingConvertor{c.Scheme, u}
	}
	return c.Scheme
}

type sharingConvertor struct {
	runtime.ObjectConvertor
	unsafe unsafeConvertor
}

func (c sharingConvertor) ConvertToVersion(in runtime.Object, gv runtime.GroupVersioner) (runtime.Object, error) {
	return c.unsafe.UnsafeConvertToVersion(in, gv)
}

// builtinConverter is a managedfields.TypeConverter over the built-in types. It has the served versions of one kind: only entries of
// managedFields in those versions are kept.
type builtinConverter struct {
	config Config

	mu    sync.Mutex
	types map[schema.GroupVersionKind]*typed.ParseableType
}

func (c *builtinConverter) ObjectToTyped(obj runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	gvk := obj.GetObjectKind().GroupVersionKind()
	t, err := c.typeOf(gvk)
	if err != nil {
		return nil, err
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return t.FromUnstructured(u.UnstructuredContent(), opts...)
	}
	return t.FromStructured(obj, opts...)
}

func (c *builtinConverter) TypedToObject(value *typed.TypedValue) (runtime.Object, error) {
	content, ok := value.AsValue().Unstructured().(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the value of an object is a map, not %T", value.AsValue().Unstructured())
	}
	return &unstructured.Unstructured{Object: content}, nil
}

// unmanaged limits the log entries about managedFields that could not be updated.
var unmanaged = rate.Sometimes{Interval: time.Second}

// upstreamUpdate is up.UpdateNoErrors, also for objects with raw JSON, such as a ControllerRevision's data: if that is nested deeper
// than encoding/json reads, structured-merge-diff panics. That is an error like any other here; validation reports it to the client.
func upstreamUpdate(up *managedfields.FieldManager, live, obj runtime.Object, manager string) (updated runtime.Object) {
	defer func() {
		reason := recover()
		if reason == nil {
			return
		}
		err, ok := reason.(error)
		if _, fault := reason.(goruntime.Error); !ok || fault {
			panic(reason) // a programming error, of ours or upstream's, must not be hidden
		}
		unmanaged.Do(func() {
			klog.ErrorS(err, "managedFields could not be updated", "kind", obj.GetObjectKind().GroupVersionKind())
		})
		updated = obj
		if before, err := meta.Accessor(live); err == nil {
			if after, err := meta.Accessor(obj); err == nil {
				after.SetManagedFields(before.GetManagedFields())
			}
		}
	}()
	return up.UpdateNoErrors(live, obj, manager)
}

func (c *builtinConverter) typeOf(gvk schema.GroupVersionKind) (*typed.ParseableType, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t, ok := c.types[gvk]; ok {
		return t, nil
	}
	if !slices.Contains(c.config.versions(), gvk.GroupVersion()) {
		return nil, missingType(gvk)
	}
	obj, err := c.config.Scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	name := openapiutil.GetCanonicalTypeName(obj)
	s, err := builtinTypes.reachable(name)
	if err != nil {
		return nil, missingType(gvk)
	}
	t := &typed.ParseableType{TypeRef: smdschema.TypeRef{NamedType: &name}, Schema: s}
	c.types[gvk] = t
	return t, nil
}

// missingType returns the error by which upstream's manager recognises a version that is not served. Upstream's converter makes it,
// since its type is not exported.
func missingType(gvk schema.GroupVersionKind) error {
	none, err := managedfields.NewTypeConverter(nil, false)
	if err != nil {
		return err
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(gvk)
	_, err = none.ObjectToTyped(obj)
	return err
}
