package custom

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/rowlock/rowlock/resources/fieldmanager"
)

// fieldTypes is the schema of all versions of a definition for field ownership, made when it is first needed.
type fieldTypes struct {
	get  func() (managedfields.TypeConverter, error)
	keep func(key any, build func() (any, error)) (any, error)
	// stored is the text of the schema of a version, empty if there is none, or if objects have fields that it does not have.
	stored func(version string) []byte
}

var (
	_ managedfields.TypeConverter = fieldTypes{}
	_ fieldmanager.Keeper         = fieldTypes{}
	_ fieldmanager.StoredSchemas  = fieldTypes{}
)

// StoredSchema implements fieldmanager.StoredSchemas.
func (f fieldTypes) StoredSchema(kind schema.GroupVersionKind) (object, metadata string, ok bool) {
	text := f.stored(kind.Version)
	return string(text), strings.Join(strings.Fields(metaSchema), ""), len(text) > 0
}

// ObjectToTyped implements managedfields.TypeConverter.
func (f fieldTypes) ObjectToTyped(o runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	c, err := f.get()
	if err != nil {
		return nil, err
	}
	return c.ObjectToTyped(o, opts...)
}

// TypedToObject implements managedfields.TypeConverter.
func (f fieldTypes) TypedToObject(v *typed.TypedValue) (runtime.Object, error) {
	c, err := f.get()
	if err != nil {
		return nil, err
	}
	return c.TypedToObject(v)
}

// Keep implements fieldmanager.Keeper: a manager's derived schemas are in the cache, which may drop them.
func (f fieldTypes) Keep(key any, build func() (any, error)) (any, error) { return f.keep(key, build) }

func (d *definition) newFieldTypes(crd *apiextensionsv1.CustomResourceDefinition) fieldTypes {
	versions, size := make([]string, len(crd.Spec.Versions)), 0
	for i, v := range crd.Spec.Versions {
		versions[i] = v.Name
		size += d.sums.of(v.Name).size
	}
	build := func() (any, error) {
		definitions, err := metaDefinitions()
		if err != nil {
			return nil, err
		}
		for _, version := range versions {
			s, err := d.fieldSchema(version)
			if err != nil {
				return nil, fmt.Errorf("fields of %s in version %s: %w", d.name, version, err)
			}
			definitions[d.group+"."+version+"."+d.kind] = s
		}
		return managedfields.NewTypeConverter(definitions, d.unpruned)
	}
	room := int64(size) * fieldsCost
	return fieldTypes{
		get: func() (managedfields.TypeConverter, error) {
			c, err := d.compiled.get(fieldsKey{d.name, d.revision}, room, build)
			if err != nil {
				return nil, err
			}
			return c.(managedfields.TypeConverter), nil
		},
		keep: func(key any, build func() (any, error)) (any, error) { return d.compiled.get(key, room, build) },
		stored: func(version string) []byte {
			if d.unpruned {
				return nil
			}
			text, _ := d.schemaText(version)
			return bytes.Clone(text) // a clone: the result keeps parts of it
		},
	}
}

// fieldsKey is the cache key of the schema for field ownership, and fieldsCost its size as a multiple of the length of the texts of all
// versions, about.
type fieldsKey struct {
	name     string
	revision int64
}

const fieldsCost = 1

// metaName is the name of the schema of metadata in the OpenAPI definitions.
const metaName = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

// metaSchema is the schema of metadata as far as field ownership depends on it: maps, sets, lists with keys, and atomic values.
const metaSchema = `{"type":"object","properties":{
	"annotations":{"type":"object","additionalProperties":{"type":"string","default":""}},
	"creationTimestamp":{"type":"string","format":"date-time"},
	"deletionGracePeriodSeconds":{"type":"integer","format":"int64"},
	"deletionTimestamp":{"type":"string","format":"date-time"},
	"finalizers":{"type":"array","items":{"type":"string","default":""},"x-kubernetes-list-type":"set","x-kubernetes-patch-strategy":"merge"},
	"generateName":{"type":"string"},
	"generation":{"type":"integer","format":"int64"},
	"labels":{"type":"object","additionalProperties":{"type":"string","default":""}},
	"managedFields":{"type":"array","items":{"type":"object"},"x-kubernetes-list-type":"atomic"},
	"name":{"type":"string"},
	"namespace":{"type":"string"},
	"ownerReferences":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["uid"],"x-kubernetes-patch-merge-key":"uid",
		"x-kubernetes-patch-strategy":"merge","items":{"type":"object","x-kubernetes-map-type":"atomic","properties":{"apiVersion":{"type":"string"},
			"blockOwnerDeletion":{"type":"boolean"},"controller":{"type":"boolean"},"kind":{"type":"string"},"name":{"type":"string"},"uid":{"type":"string","default":""}}}},
	"resourceVersion":{"type":"string"},
	"selfLink":{"type":"string"},
	"uid":{"type":"string"}}}`

func metaDefinitions() (map[string]*spec.Schema, error) {
	s := &spec.Schema{}
	if err := json.Unmarshal([]byte(metaSchema), s); err != nil {
		return nil, err
	}
	return map[string]*spec.Schema{metaName: s}, nil
}

// fieldSchema is the schema of objects of a version.
func (d *definition) fieldSchema(version string) (*spec.Schema, error) {
	s := new(spec.Schema).Typed("object", "")
	v, err := d.schema(version) // writes of objects need the compiled schema anyway
	if err != nil {
		return nil, err
	}
	if v.props != nil {
		structural, err := structuralschema.NewStructural(v.props)
		if err != nil {
			return nil, err
		}
		s = structural.Unfold().ToKubeOpenAPI()
		own(s, true)
	}
	s.AddExtension("x-kubernetes-group-version-kind", []any{map[string]any{"group": d.group, "version": version, "kind": d.kind}})
	return s, nil
}

// own adds the fields of every object to a schema, and to those of the objects within it.
func own(s *spec.Schema, whole bool) {
	for name, property := range s.Properties {
		own(&property, false)
		s.Properties[name] = property
	}
	if s.Items != nil && s.Items.Schema != nil {
		own(s.Items.Schema, false)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		own(s.AdditionalProperties.Schema, false)
	}
	embedded, _ := s.Extensions.GetBool("x-kubernetes-embedded-resource")
	if whole || embedded {
		s.SetProperty("apiVersion", *spec.StringProperty()).SetProperty("kind", *spec.StringProperty())
		s.SetProperty("metadata", *spec.RefSchema("#/components/schemas/" + metaName))
	}
}
