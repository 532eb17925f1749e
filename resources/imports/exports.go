package imports

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apiserver/pkg/storage/value"
	kjson "sigs.k8s.io/json"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
)

// Exporter converts an object of the store to the key and the value that kube-apiserver would have stored. Only one goroutine may use it.
type Exporter struct {
	prefix       string
	transformers value.ResourceTransformers
	types        map[string]*resources.Type // by resource
	defined      map[string]schema.GroupResource
}

// NewExporter makes an Exporter for keys under a prefix. transformers encrypt the values that kube-apiserver expects encrypted; nil: none are.
func NewExporter(prefix string, transformers value.ResourceTransformers) (*Exporter, error) {
	e := &Exporter{Under(prefix), transformers, map[string]*resources.Type{}, map[string]schema.GroupResource{}}
	err := storedTypes(func(t *resources.Type) { e.types[t.ResourceName()] = t })
	return e, err
}

// DefinitionsResource is the resource of the definitions of custom resources, for which Define has to be called before others are exported.
func DefinitionsResource() string {
	return schema.GroupResource{Group: "apiextensions.k8s.io", Resource: crdPlural}.String()
}

// Define records a definition.
func (e *Exporter) Define(o *resources.Object) error {
	decoded, err := e.types[o.Resource].DecodeStored(o)
	if err != nil {
		return err
	}
	d, ok := decoded.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return fmt.Errorf("a definition is a %T", decoded)
	}
	r := schema.GroupResource{Group: d.Spec.Group, Resource: d.Spec.Names.Plural}
	e.defined[r.String()] = r
	return nil
}

// Export makes the key and the value of an object. Errors: *Skipped; any other error means that the object is lost.
func (e *Exporter) Export(ctx context.Context, o *resources.Object) (key string, stored []byte, err error) {
	if resources.IsOwnRow(o.Resource) {
		return "", nil, &Skipped{"is Rowlock's own, and no API serves it"}
	}
	var resource schema.GroupResource
	if t := e.types[o.Resource]; t != nil {
		resource, key = t.GroupResource, e.prefix+placeOf(t.GroupResource)+"/"+o.Path()
		stored, err = encodeBuiltIn(t, o)
	} else if r, ok := e.defined[o.Resource]; ok {
		resource, key = r, e.prefix+r.Group+"/"+r.Resource+"/"+o.Path()
		stored, err = encodeCustom(o)
	} else {
		err = errors.New("its type is neither a built-in one, nor is there a definition")
	}
	if err != nil || e.transformers == nil {
		return key, stored, err
	}
	stored, err = e.transformers.TransformerForResource(resource).TransformToStorage(ctx, stored, value.DefaultContext(key))
	if err != nil {
		return "", nil, fmt.Errorf("encrypt it: %w", err)
	}
	return key, stored, nil
}

var (
	protobufs = protobuf.NewSerializer(builtin.Scheme, builtin.Scheme)
	jsons     = json.NewSerializerWithOptions(json.DefaultMetaFactory, builtin.Scheme, builtin.Scheme, json.SerializerOptions{})
)

// encodeBuiltIn encodes an object in kube-apiserver's storage version: as protobuf, except for the groups of its servers for extensions and
// aggregation, which store JSON.
func encodeBuiltIn(t *resources.Type, o *resources.Object) ([]byte, error) {
	versioned, err := t.DecodeStored(o)
	if err != nil {
		return nil, err
	}
	kind := t.HashedKind()
	if kind.GroupVersion() != t.StorageVersion {
		hub, err := t.ToHub(versioned)
		if err != nil {
			return nil, fmt.Errorf("convert it: %w", err)
		}
		if versioned, err = t.ToVersion(hub, kind.GroupVersion()); err != nil {
			return nil, fmt.Errorf("convert it: %w", err)
		}
	}
	m, err := meta.Accessor(versioned)
	if err != nil {
		return nil, err
	}
	m.SetResourceVersion("") // etcd has it
	m.SetSelfLink("")
	versioned.GetObjectKind().SetGroupVersionKind(kind)
	var encoder runtime.Encoder = protobufs
	if t.Group == "apiextensions.k8s.io" || t.Group == "apiregistration.k8s.io" {
		encoder = jsons
	}
	var b bytes.Buffer
	if err := encoder.Encode(versioned, &b); err != nil {
		return nil, fmt.Errorf("encode it: %w", err)
	}
	return b.Bytes(), nil
}

func encodeCustom(o *resources.Object) ([]byte, error) {
	u := &unstructured.Unstructured{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(o.Data, &u.Object); err != nil {
		return nil, fmt.Errorf("decode it: %w", err)
	}
	unstructured.RemoveNestedField(u.Object, "metadata", "resourceVersion")
	var b bytes.Buffer
	if err := unstructured.UnstructuredJSONScheme.Encode(u, &b); err != nil {
		return nil, fmt.Errorf("encode it: %w", err)
	}
	return b.Bytes(), nil
}
