package upstream

import (
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
)

// shapes are the features of the API's types for which a fast path has its own code.
type shapes struct {
	own      map[string]bool // types with their own methods to be written, read or compared, and these methods
	kinds    map[string]bool // of types other than structs, pointers and lists
	maps     map[string]bool
	options  map[string]bool // of json tags
	protobuf map[string]bool // options of protobuf tags behind the number
	messages map[string]bool // lists, maps and values that upstream's generated code writes as messages
	embedded map[string]bool // except those that are all inlined
	hidden   map[string]bool // structs with fields that are not exported

	seen map[reflect.Type]bool
}

// methods are the methods with which a type has its own code.
var methods = []struct {
	name string
	typ  reflect.Type
}{
	{"MarshalJSON", reflect.TypeFor[json.Marshaler]()}, {"UnmarshalJSON", reflect.TypeFor[json.Unmarshaler]()},
	{"MarshalText", reflect.TypeFor[encoding.TextMarshaler]()}, {"UnmarshalText", reflect.TypeFor[encoding.TextUnmarshaler]()},
	{"IsZero", reflect.TypeFor[interface{ IsZero() bool }]()}, {"ToUnstructured", reflect.TypeFor[interface{ ToUnstructured() any }]()},
}

var marshaler = reflect.TypeFor[interface{ Marshal() ([]byte, error) }]()

// walk records a type and all types in it.
func (s *shapes) walk(t reflect.Type) {
	if s.seen[t] {
		return
	}
	s.seen[t] = true
	var own []string
	for _, m := range methods {
		switch {
		case t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface:
		case t.Implements(m.typ):
			own = append(own, m.name)
		case reflect.PointerTo(t).Implements(m.typ):
			own = append(own, "*"+m.name)
		}
	}
	if k := t.Kind(); k != reflect.Struct && k != reflect.Pointer && reflect.PointerTo(t).Implements(marshaler) {
		s.messages[t.String()] = true
	}
	if own != nil {
		s.own[t.String()+": "+strings.Join(own, " ")] = true
	}
	switch t.Kind() {
	case reflect.Struct:
		s.walkStruct(t, own != nil)
	case reflect.Pointer, reflect.Slice:
		s.walk(t.Elem())
	case reflect.Map:
		s.maps[fmt.Sprintf("of %s by %s", t.Elem().Kind(), t.Key().Kind())] = true
		s.walk(t.Key())
		s.walk(t.Elem())
	default:
		s.kinds[t.Kind().String()] = true
	}
}

// walkStruct records the fields of a struct; for one with its own methods, only as far as they are compared.
func (s *shapes) walkStruct(t reflect.Type, own bool) {
	for f := range t.Fields() {
		tag, wire := f.Tag.Get("json"), strings.Split(f.Tag.Get("protobuf"), ",")
		name, options, _ := strings.Cut(tag, ",")
		if !f.IsExported() {
			s.hidden[t.String()] = true
			continue
		}
		if own {
			continue
		}
		for option := range strings.SplitSeq(options, ",") {
			s.options[option] = true
		}
		for _, option := range wire[min(len(wire), 2):] {
			option, _, _ = strings.Cut(option, "=")
			s.protobuf[option] = true
		}
		if f.Anonymous && (name != "" || f.Type.Kind() != reflect.Struct) {
			s.embedded[f.Type.String()+" "+tag] = true
		}
		if tag != "-" {
			s.walk(f.Type)
		}
	}
}

// shapesOf records all kinds of the scheme in the requested versions.
func shapesOf(t *testing.T, internal bool) *shapes {
	t.Helper()
	s := &shapes{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{},
		map[string]bool{}, map[reflect.Type]bool{}}
	for gvk, typ := range Scheme.AllKnownTypes() {
		if (gvk.Version == runtime.APIVersionInternal) == internal {
			s.walk(typ)
		}
	}
	if len(s.seen) < 1000 {
		t.Fatalf("only %d types were seen", len(s.seen))
	}
	return s
}

func sorted(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }

// The following are the assumptions of the fast paths. When one of these tests fails, look at the paths that it names: each
// has to handle the new feature, or to leave it to upstream's code, and its fuzz test should cover it. Then add it here.

func TestShapesOfVersions(t *testing.T) {
	s := shapesOf(t, false)
	for _, c := range []struct {
		what      string
		got       map[string]bool
		want      []string
		lookedFor string
	}{
		{"types that write, read or compare themselves", s.own, []string{
			"intstr.IntOrString: MarshalJSON *UnmarshalJSON",
			"resource.Quantity: MarshalJSON *UnmarshalJSON *IsZero ToUnstructured",
			"runtime.RawExtension: MarshalJSON *UnmarshalJSON",
			"v1.FieldsV1: MarshalJSON *UnmarshalJSON",
			"v1.JSON: MarshalJSON *UnmarshalJSON",
			"v1.JSONSchemaPropsOrArray: MarshalJSON *UnmarshalJSON",
			"v1.JSONSchemaPropsOrBool: MarshalJSON *UnmarshalJSON",
			"v1.JSONSchemaPropsOrStringArray: MarshalJSON *UnmarshalJSON",
			"v1.MicroTime: MarshalJSON *UnmarshalJSON MarshalText *UnmarshalText *IsZero",
			"v1.Time: MarshalJSON *UnmarshalJSON MarshalText *UnmarshalText *IsZero ToUnstructured",
			"v1beta1.JSON: MarshalJSON *UnmarshalJSON",
			"v1beta1.JSONSchemaPropsOrArray: MarshalJSON *UnmarshalJSON",
			"v1beta1.JSONSchemaPropsOrBool: MarshalJSON *UnmarshalJSON",
			"v1beta1.JSONSchemaPropsOrStringArray: MarshalJSON *UnmarshalJSON",
		}, "resources/typedjson, server/codec/transcode, resources/fieldmanager (newEqualities)"},
		{"kinds of values", s.kinds, []string{"bool", "float64", "int32", "int64", "string", "uint8"},
			"resources/typedjson, server/codec/transcode, resources/equality, resources/fieldmanager"},
		{"maps", s.maps, []string{"of slice by string", "of string by string", "of struct by string"},
			"resources/typedjson, server/codec/transcode, resources/equality, resources/fieldmanager"},
		{"options of json tags", s.options, []string{"", "inline", "omitempty", "omitzero"}, "resources/typedjson (fields.go), resources/fieldmanager"},
		{"options of protobuf tags", s.protobuf, []string{"castkey", "casttype", "castvalue", "name", "opt", "rep", "req"}, "server/codec/transcode"},
		{"lists and maps that are messages of their own", s.messages, []string{"v1.AttestationValue", "v1.ExtraValue", "v1.Verbs", "v1beta1.ExtraValue"}, "server/codec/transcode (absentElement, list)"},
		{"embedded structs with names", s.embedded, []string{"v1.ListMeta metadata,omitempty", "v1.ObjectMeta metadata", "v1.ObjectMeta metadata,omitempty"},
			"resources/typedjson (fields.go), server/codec/transcode, resources/fieldmanager"},
		{"structs with fields that are not exported", s.hidden, []string{"resource.Quantity"}, "resources/equality"},
	} {
		if diff := cmp.Diff(c.want, sorted(c.got)); diff != "" {
			t.Errorf("%s, which are known to %s (-known +upstream): %s", c.what, c.lookedFor, diff)
		}
	}
}

// TestShapesOfHub is about the hub forms, which are compared, not encoded.
func TestShapesOfHub(t *testing.T) {
	s := shapesOf(t, true)
	for _, c := range []struct {
		what string
		got  map[string]bool
		want []string
	}{
		{"kinds of values", s.kinds, []string{"bool", "float64", "int32", "int64", "interface", "string", "uint8"}},
		{"maps", s.maps, []string{"of slice by string", "of string by string", "of struct by string"}},
		{"structs with fields that are not exported", s.hidden, []string{"resource.Quantity"}},
	} {
		if diff := cmp.Diff(c.want, sorted(c.got)); diff != "" {
			t.Errorf("%s, which are known to resources/equality (-known +upstream): %s", c.what, diff)
		}
	}
}
