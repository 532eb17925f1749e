package transcode

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/rowlock/rowlock/resources/gotype"
)

// Message describes the conversion of one Go type.
type Message struct {
	fields []field        // in the order of their numbers, as on the wire
	slots  map[string]int // the slot of each key; keys of inlined messages included
	none   []value        // an empty value for each slot
}

// field is a field of a message.
type field struct {
	number protowire.Number
	tag    []byte
	slot   int    // of its value; -1: the field is not in JSON
	absent []byte // bytes for a field that the JSON does not have
	// zeroTime is set if null means the zero time, as in typedjson.DecodeStored, and not an absent field.
	zeroTime bool
	append   appendFunc
	inline   []field // the fields of an inlined message, whose keys belong to this one
}

// appendFunc appends a field with its tag, for the value v.
type appendFunc func(e *encoder, dst []byte, tag []byte, v value) []byte

type marshaler interface{ Marshal() ([]byte, error) }

var messages gotype.Memo[*compiled]

// compiled is the Message of a type, or the reason why there is none.
type compiled struct {
	message *Message
	err     error
}

// For returns the Message of a Go type, a struct with protobuf tags. The error names the unsupported part of the type.
func For(t reflect.Type) (*Message, error) {
	known := messages.Of(t, func(t reflect.Type) *compiled {
		m, err := (compiler{}).message(t)
		return &compiled{m, err}
	})
	if known.err != nil {
		return nil, known.err
	}
	return known.message, nil
}

// compiler has the messages of one compilation so far; types may be recursive.
type compiler map[reflect.Type]*Message

func (p compiler) message(t reflect.Type) (*Message, error) {
	if m := p[t]; m != nil {
		return m, nil
	}
	m := &Message{slots: map[string]int{}}
	p[t] = m
	var err error
	m.fields, err = p.fields(t, m)
	m.none = make([]value, len(m.slots))
	return m, err
}

// fields returns the fields of t, whose keys belong to the object of m, as those of an inlined struct do.
func (p compiler) fields(t reflect.Type, m *Message) ([]field, error) {
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%s is not a struct", t)
	}
	var out []field
	for i := range t.NumField() {
		f := t.Field(i)
		number, err := fieldNumber(f)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", t, f.Name, err)
		}
		if number == 0 { // TypeMeta, which the envelope has
			continue
		}
		compiled, err := p.field(f, number, m)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", t, f.Name, err)
		}
		out = append(out, compiled)
	}
	slices.SortFunc(out, func(a, b field) int { return int(a.number - b.number) })
	return out, nil
}

// fieldNumber returns the number of a field; 0 if it has none.
func fieldNumber(f reflect.StructField) (protowire.Number, error) {
	tag, ok := f.Tag.Lookup("protobuf")
	if !ok {
		return 0, nil
	}
	_, rest, _ := strings.Cut(tag, ",")
	digits, rest, _ := strings.Cut(rest, ",")
	number, err := strconv.Atoi(digits)
	if err != nil || strings.Contains(rest, "packed") {
		return 0, fmt.Errorf("protobuf tag %q", tag)
	}
	return protowire.Number(number), nil
}

func (p compiler) field(f reflect.StructField, number protowire.Number, m *Message) (field, error) {
	inJSON := gotype.FieldOf(f)
	out := field{number: number, slot: -1}
	if inJSON.Inline {
		out.tag = protowire.AppendTag(nil, number, protowire.BytesType)
		var err error
		out.inline, err = p.fields(f.Type, m)
		return out, err
	}
	kind, write, err := p.value(f.Type)
	if err != nil {
		return field{}, err
	}
	out.tag, out.append = protowire.AppendTag(nil, number, kind), write
	if out.absent, err = absent(f.Type, out.tag); err != nil {
		return field{}, err
	}
	if inJSON.Ignored {
		return out, nil
	}
	name := inJSON.JSON
	if _, twice := m.slots[name]; twice {
		return field{}, fmt.Errorf("json name %q", name)
	}
	out.zeroTime = inJSON.OmitEmpty && (f.Type == reflect.TypeFor[*metav1.Time]() || f.Type == reflect.TypeFor[*metav1.MicroTime]())
	out.slot = len(m.slots)
	m.slots[name] = out.slot
	return out, nil
}

// absent returns the bytes that upstream's generated code writes for the zero value of a field: none for an optional field (a pointer, a list, a
// map), and the zero value for any other.
func absent(t reflect.Type, tag []byte) ([]byte, error) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return nil, nil
	case reflect.Struct:
		zero, err := reflect.New(t).Interface().(marshaler).Marshal()
		return protowire.AppendBytes(slices.Clone(tag), zero), err
	}
	return append(slices.Clone(tag), 0), nil // false, 0, or the length of ""
}

var (
	unmarshalerType = reflect.TypeFor[json.Unmarshaler]()
	marshalerType   = reflect.TypeFor[marshaler]()
)

// leaves are types with their own UnmarshalJSON that occur in every object.
var leaves = map[reflect.Type]appendFunc{
	reflect.TypeFor[metav1.Time]():        message((*encoder).time),
	reflect.TypeFor[metav1.MicroTime]():   message((*encoder).time),
	reflect.TypeFor[resource.Quantity]():  message((*encoder).quantity),
	reflect.TypeFor[intstr.IntOrString](): message((*encoder).intOrString),
	reflect.TypeFor[metav1.FieldsV1]():    message((*encoder).raw),
}

// value returns the function that writes a value of a type.
func (p compiler) value(t reflect.Type) (protowire.Type, appendFunc, error) {
	if leaf := leaves[t]; leaf != nil {
		return protowire.BytesType, leaf, nil
	}
	if t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(unmarshalerType) {
		if !reflect.PointerTo(t).Implements(marshalerType) {
			return 0, nil, fmt.Errorf("%s decodes itself", t)
		}
		return protowire.BytesType, goValue(t), nil
	}
	switch t.Kind() {
	case reflect.String:
		return protowire.BytesType, message((*encoder).string), nil
	case reflect.Bool:
		return protowire.VarintType, (*encoder).bool, nil
	case reflect.Int, reflect.Int32, reflect.Int64:
		return protowire.VarintType, (*encoder).int, nil
	case reflect.Pointer:
		return p.value(t.Elem())
	case reflect.Slice:
		return p.list(t)
	case reflect.Map:
		return p.mapping(t)
	case reflect.Struct:
		m, err := p.message(t)
		return protowire.BytesType, func(e *encoder, dst, tag []byte, v value) []byte { return e.message(dst, tag, m, v) }, err
	}
	return 0, nil, fmt.Errorf("%s is not covered", t.Kind())
}

func (p compiler) list(t reflect.Type) (protowire.Type, appendFunc, error) {
	if t.Elem().Kind() == reflect.Uint8 {
		return protowire.BytesType, message((*encoder).bytes), nil
	}
	kind, element, err := p.value(t.Elem())
	if err != nil {
		return 0, nil, err
	}
	none, err := absentElement(t.Elem())
	if none == nil {
		none = []byte{0}
	}
	items := func(e *encoder, dst, tag []byte, v value) []byte { return e.list(dst, tag, element, none, v) }
	if !t.Implements(marshalerType) {
		return kind, items, err
	}
	// Some lists are messages of their own, as ExtraValue is: their items are field 1.
	one := protowire.AppendTag(nil, 1, kind)
	return protowire.BytesType, message(func(e *encoder, dst []byte, v value) []byte { return items(e, dst, one, v) }), err
}

// absentElement returns the bytes for null as an element of a list or a map, without the tag: none for bytes in a map.
func absentElement(t reflect.Type) ([]byte, error) {
	switch {
	case t.Kind() == reflect.Pointer:
		return nil, fmt.Errorf("elements are pointers")
	case t.Implements(marshalerType):
		return []byte{0}, nil
	}
	return absent(t, nil)
}

var keyTag, valueTag = protowire.AppendTag(nil, 1, protowire.BytesType), protowire.Number(2)

func (p compiler) mapping(t reflect.Type) (protowire.Type, appendFunc, error) {
	if t.Key().Kind() != reflect.String {
		return 0, nil, fmt.Errorf("keys are of kind %s", t.Key().Kind())
	}
	kind, element, err := p.value(t.Elem())
	if err != nil {
		return 0, nil, err
	}
	none, err := absentElement(t.Elem())
	tag := protowire.AppendTag(nil, valueTag, kind)
	if none != nil {
		none = append(slices.Clone(tag), none...)
	}
	return protowire.BytesType, func(e *encoder, dst, outer []byte, v value) []byte {
		return e.mapping(dst, outer, tag, element, none, v)
	}, err
}
