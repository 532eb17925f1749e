package typedjson

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rowlock/rowlock/resources/gotype"
)

type unmarshaler = json.Unmarshaler

// maxFields is the greatest number of fields of a struct.
const maxFields = 128

// structReader is the compiled reader of a struct.
type structReader struct {
	fields []readField
	byName map[string]int
}

type readField struct {
	name   string
	offset uintptr
	read   reader
}

var readers gotype.Memo[reader]

// readerOf returns the reader of a struct, nil where it is not covered.
func readerOf(t reflect.Type) reader { return readers.Of(t, compileReader) }

func compileReader(t reflect.Type) reader {
	r, err := (readerCompiler{}).structure(t)
	if err != nil || reflect.PointerTo(t).Implements(unmarshalerType) {
		return nil
	}
	return r
}

// readerCompiler has the readers that exist already in one compilation; types may be recursive.
type readerCompiler map[reflect.Type]*structReader

func (p readerCompiler) structure(t reflect.Type) (reader, error) {
	if s := p[t]; s != nil {
		return s.readStruct, nil
	}
	fields, err := fieldsOf(t)
	if err != nil {
		return nil, err
	}
	if len(fields) > maxFields {
		return nil, fmt.Errorf("%s has %d fields", t, len(fields))
	}
	s := &structReader{fields: make([]readField, len(fields)), byName: make(map[string]int, len(fields))}
	p[t] = s
	for i, f := range fields {
		read, err := p.value(f.Type)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", t, f.JSON, err)
		}
		if f.OmitEmpty && (f.Type == reflect.TypeFor[*metav1.Time]() || f.Type == reflect.TypeFor[*metav1.MicroTime]()) {
			read = readStoredTime(f.Type.Elem(), read)
		}
		s.fields[i] = readField{f.JSON, f.Start, read}
		s.byName[f.JSON] = i
	}
	return s.readStruct, nil
}

var (
	unmarshalerType     = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// value returns the reader of a type's values.
func (p readerCompiler) value(t reflect.Type) (reader, error) {
	if t == reflect.TypeFor[metav1.Time]() {
		return readTime, nil
	}
	if t == schemaOrBool || t == schemaOrArray {
		return p.schemaReader(t)
	}
	if t == reflect.TypeFor[resource.Quantity]() {
		return readQuantity, nil
	}
	if t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(unmarshalerType) {
		return readItself(t), nil
	}
	if t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(textUnmarshalerType) {
		return nil, fmt.Errorf("%s decodes its text itself", t)
	}
	switch t.Kind() {
	case reflect.String:
		return readString, nil
	case reflect.Bool:
		return readBool, nil
	case reflect.Int32:
		return readInt(32, func(p unsafe.Pointer, n int64) { *(*int32)(p) = int32(n) }), nil
	case reflect.Int64:
		return readInt(64, func(p unsafe.Pointer, n int64) { *(*int64)(p) = n }), nil
	case reflect.Int:
		return readInt(0, func(p unsafe.Pointer, n int64) { *(*int)(p) = int(n) }), nil
	case reflect.Float64:
		return readFloat64, nil
	case reflect.Pointer:
		read, err := p.value(t.Elem())
		return readPointer(t.Elem(), read), err
	case reflect.Slice:
		return p.list(t)
	case reflect.Map:
		return p.mapping(t)
	case reflect.Struct:
		return p.structure(t)
	}
	return nil, fmt.Errorf("%s is not covered", t)
}

func (p readerCompiler) list(t reflect.Type) (reader, error) {
	if t.Elem().Kind() == reflect.Uint8 {
		if t.Elem() != reflect.TypeFor[byte]() {
			return nil, fmt.Errorf("%s is not covered", t)
		}
		return readBytes, nil
	}
	read, err := p.value(t.Elem())
	return readList(t, read), err
}

func (p readerCompiler) mapping(t reflect.Type) (reader, error) {
	if t == reflect.TypeFor[map[string]string]() {
		return readStrings, nil
	}
	if t.Key().Kind() != reflect.String || reflect.PointerTo(t.Key()).Implements(textUnmarshalerType) {
		return nil, fmt.Errorf("keys of %s are not covered", t)
	}
	read, err := p.value(t.Elem())
	return readMap(t, read), err
}
