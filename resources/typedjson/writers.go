package typedjson

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rowlock/rowlock/resources/gotype"
)

// writer appends the JSON of the value at p, which is of the type that the writer was made for.
type writer func(e *encoder, dst []byte, p unsafe.Pointer) []byte

// compiledWriter is the writer of a type, or the error that says which feature of the type is not covered.
type compiledWriter struct {
	write writer
	err   error
}

var encodings gotype.Memo[*compiledWriter]

// encodingOf returns the writer of a type, which is compiled on first use.
func encodingOf(t reflect.Type) *compiledWriter { return encodings.Of(t, compileWriter) }

func compileWriter(t reflect.Type) *compiledWriter {
	made := writerCompiler{}
	compiled := &compiledWriter{}
	compiled.write, compiled.err = made.of(t)
	if compiled.err == nil {
		for t, write := range made { // all writers of this compilation are complete now
			encodings.Keep(t, &compiledWriter{write: *write})
		}
	}
	return compiled
}

// writerCompiler has the writers of the types in one compilation. A nil writer is under construction.
type writerCompiler map[reflect.Type]*writer

func (made writerCompiler) of(t reflect.Type) (writer, error) {
	if known, ok := encodings.Known(t); ok && known.err == nil {
		return known.write, nil
	}
	if w := made[t]; w != nil && *w != nil {
		return *w, nil
	} else if w != nil {
		return func(e *encoder, dst []byte, p unsafe.Pointer) []byte { return e.appendAgain(dst, p, *w) }, nil
	}
	w := new(writer)
	made[t] = w
	var err error
	*w, err = made.compile(t)
	return *w, err
}

var (
	jsonMarshalerType = reflect.TypeFor[json.Marshaler]()
	textMarshalerType = reflect.TypeFor[encoding.TextMarshaler]()
)

func (made writerCompiler) compile(t reflect.Type) (writer, error) {
	if leaf := leaves[t]; leaf != nil {
		return leaf, nil
	}
	switch {
	case t.Kind() == reflect.Pointer: // has no methods but those of its target
	case t == schemaOrBool, t == schemaOrArray:
		return made.schemaWriter(t)
	case t.Kind() != reflect.Interface && t.Implements(jsonMarshalerType):
		return func(e *encoder, dst []byte, p unsafe.Pointer) []byte {
			return e.appendMarshaler(dst, reflect.NewAt(t, p).Interface().(json.Marshaler))
		}, nil
	case reflect.PointerTo(t).Implements(jsonMarshalerType):
		// encoding/json uses such a method only for addressable values, which values of maps are not.
		return nil, fmt.Errorf("%s writes itself by a pointer", t)
	case reflect.PointerTo(t).Implements(textMarshalerType):
		return nil, fmt.Errorf("%s writes itself as text", t)
	}
	switch t.Kind() {
	case reflect.Struct:
		return made.structure(t)
	case reflect.Pointer:
		return made.pointer(t)
	case reflect.Slice:
		return made.list(t)
	case reflect.Map:
		return made.mapping(t)
	}
	if w := scalars[t.Kind()]; w != nil && t != reflect.TypeFor[json.Number]() {
		return w, nil
	}
	return nil, fmt.Errorf("%s is not covered", t)
}

var scalars = map[reflect.Kind]writer{
	reflect.String:  appendStringAt,
	reflect.Bool:    appendBool,
	reflect.Int:     appendInt[int],
	reflect.Int8:    appendInt[int8],
	reflect.Int16:   appendInt[int16],
	reflect.Int32:   appendInt[int32],
	reflect.Int64:   appendInt[int64],
	reflect.Uint:    appendUint[uint],
	reflect.Uint8:   appendUint[uint8],
	reflect.Uint16:  appendUint[uint16],
	reflect.Uint32:  appendUint[uint32],
	reflect.Uint64:  appendUint[uint64],
	reflect.Float32: appendFloat32,
	reflect.Float64: appendFloat64,
}

func (made writerCompiler) structure(t reflect.Type) (writer, error) {
	known, err := fieldsOf(t)
	if err != nil {
		return nil, err
	}
	fields := make([]structField, len(known))
	for i, f := range known {
		w, err := made.of(f.Type)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", t, f.JSON, err)
		}
		fields[i] = structField{key: `,"` + f.JSON + `":`, offset: f.Start, omit: omission(f), write: w}
	}
	return func(e *encoder, dst []byte, p unsafe.Pointer) []byte { return e.appendStruct(dst, p, fields) }, nil
}

func (made writerCompiler) pointer(t reflect.Type) (writer, error) {
	w, err := made.of(t.Elem())
	return func(e *encoder, dst []byte, p unsafe.Pointer) []byte {
		target := *(*unsafe.Pointer)(p)
		if target == nil {
			return append(dst, "null"...)
		}
		return w(e, dst, target)
	}, err
}

func (made writerCompiler) list(t reflect.Type) (writer, error) {
	w, err := made.of(t.Elem()) // fails also for a slice of bytes with their own MarshalJSON
	if err != nil || t.Elem().Kind() == reflect.Uint8 {
		return appendBytes, err
	}
	size := t.Elem().Size()
	return func(e *encoder, dst []byte, p unsafe.Pointer) []byte { return e.appendList(dst, p, size, w) }, nil
}

func (made writerCompiler) mapping(t reflect.Type) (writer, error) {
	switch {
	case isStringMap(t):
		return appendStringMap, nil
	case isResourceList(t):
		return appendResourceList, nil
	case t.Key().Kind() != reflect.String:
		return nil, fmt.Errorf("keys of %s are not covered", t)
	}
	w, err := made.of(t.Elem())
	return func(e *encoder, dst []byte, p unsafe.Pointer) []byte { return e.appendMap(dst, p, t, w) }, err
}

func isStringMap(t reflect.Type) bool {
	return t.Key() == reflect.TypeFor[string]() && t.Elem() == reflect.TypeFor[string]()
}

func isResourceList(t reflect.Type) bool {
	return t.Key() == reflect.TypeFor[corev1.ResourceName]() && t.Elem() == reflect.TypeFor[resource.Quantity]()
}
