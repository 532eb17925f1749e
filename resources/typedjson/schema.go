package typedjson

import (
	"reflect"
	"unsafe"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/rowlock/rowlock/resources/jsonscan"
)

// Nested schemas have their own MarshalJSON and UnmarshalJSON, which call encoding/json again at every level: the text of a schema is scanned
// once for each level that it is nested. Here they are read and written like their fields.

// schemaWriter is the writer of the types that hold a schema, or a list of schemas.
func (made writerCompiler) schemaWriter(t reflect.Type) (writer, error) {
	one, err := made.of(reflect.TypeFor[apiextensionsv1.JSONSchemaProps]())
	if err != nil {
		return nil, err
	}
	if t == schemaOrBool {
		return func(e *encoder, dst []byte, p unsafe.Pointer) []byte {
			switch v := (*apiextensionsv1.JSONSchemaPropsOrBool)(p); {
			case v.Schema != nil:
				return one(e, dst, unsafe.Pointer(v.Schema))
			case v.Allows:
				return append(dst, "true"...)
			}
			return append(dst, "false"...)
		}, nil
	}
	list, err := made.of(reflect.TypeFor[[]apiextensionsv1.JSONSchemaProps]())
	return func(e *encoder, dst []byte, p unsafe.Pointer) []byte {
		switch v := (*apiextensionsv1.JSONSchemaPropsOrArray)(p); {
		case len(v.JSONSchemas) > 0:
			return list(e, dst, unsafe.Pointer(&v.JSONSchemas))
		case v.Schema != nil:
			return one(e, dst, unsafe.Pointer(v.Schema))
		}
		return append(dst, "null"...)
	}, err
}

var (
	schemaOrBool  = reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrBool]()
	schemaOrArray = reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrArray]()
)

// schemaReader is the reader of these types.
func (p readerCompiler) schemaReader(t reflect.Type) (reader, error) {
	one, err := p.value(reflect.TypeFor[apiextensionsv1.JSONSchemaProps]())
	if err != nil {
		return nil, err
	}
	if t == schemaOrBool {
		return func(d *jsonscan.Scanner, p unsafe.Pointer) bool {
			v := (*apiextensionsv1.JSONSchemaPropsOrBool)(p)
			switch d.Peek() {
			case '{':
				v.Allows, v.Schema = true, &apiextensionsv1.JSONSchemaProps{}
				return one(d, unsafe.Pointer(v.Schema))
			case 't':
				v.Allows = true
				return d.Word("true")
			}
			return d.Word("false")
		}, nil
	}
	list, err := p.value(reflect.TypeFor[[]apiextensionsv1.JSONSchemaProps]())
	return func(d *jsonscan.Scanner, p unsafe.Pointer) bool {
		v := (*apiextensionsv1.JSONSchemaPropsOrArray)(p)
		switch d.Peek() {
		case '{':
			v.Schema = &apiextensionsv1.JSONSchemaProps{}
			return one(d, unsafe.Pointer(v.Schema))
		case '[':
			return list(d, unsafe.Pointer(&v.JSONSchemas))
		}
		return false
	}, err
}
