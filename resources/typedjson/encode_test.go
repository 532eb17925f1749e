package typedjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	kjson "sigs.k8s.io/json"
)

// compareEncoding compares Append's output with that of encoding/json, or its error. It reports whether obj is covered.
func compareEncoding(t testing.TB, obj any) bool {
	t.Helper()
	want, err := json.Marshal(obj)
	prefix := []byte("before")
	got, ok := Append(prefix, obj)
	if !ok {
		if !bytes.Equal(got, prefix) {
			t.Fatalf("of %T, which is not covered, there is %q", obj, got)
		}
		return false
	}
	if err != nil {
		t.Fatalf("%T was written, and is wrong: %v", obj, err)
	}
	if got, ok = bytes.CutPrefix(got, prefix); !ok || !bytes.Equal(got, want) {
		t.Fatalf("%T is written as\n%s, want\n%s", obj, got, want)
	}
	return true
}

// CompareEncoding is for tests of another package: they need the built-in kinds, which need this one.
var CompareEncoding = compareEncoding

type (
	byValue   struct{ N int }
	byPointer struct{ N int }
	empty     struct{}
	named     string
	octet     uint8

	// Embedded counts its fields as those of everyField; embedded cannot: it is not exported.
	embedded struct{ Inner string }
	Embedded struct {
		Inner string `json:"inner"`
	}
	tree struct {
		Name     string           `json:"name,omitempty"`
		Next     *tree            `json:"next,omitempty"`
		Children []tree           `json:"children"`
		ByName   map[string]*tree `json:"byName,omitempty"`
	}
	everyField struct {
		metav1.TypeMeta `json:",inline"`
		Embedded
		Named      Embedded `json:"named"`
		Untagged   string
		Skipped    string `json:"-"`
		hidden     string
		Int        int                          `json:"int"`
		Int8       int8                         `json:"int8"`
		Int16      int16                        `json:"int16"`
		Int32      int32                        `json:"int32"`
		Int64      int64                        `json:"int64"`
		Uint       uint                         `json:"uint"`
		Uint8      uint8                        `json:"uint8"`
		Uint16     uint16                       `json:"uint16"`
		Uint32     uint32                       `json:"uint32"`
		Uint64     uint64                       `json:"uint64"`
		Float32    float32                      `json:"float32"`
		Float64    float64                      `json:"float64"`
		Bool       bool                         `json:"bool"`
		Bytes      []byte                       `json:"bytes"`
		Octets     []octet                      `json:"octets"`
		List       []string                     `json:"list"`
		Lists      [][]int16                    `json:"lists"`
		Nothing    []empty                      `json:"nothing"`
		Pointer    *string                      `json:"pointer"`
		Pointers   **int                        `json:"pointers"`
		Labels     map[string]string            `json:"labels"`
		Named2     map[named]named              `json:"named2"`
		Values     map[string]Embedded          `json:"values"`
		Resources  corev1.ResourceList          `json:"resources"`
		Quantities map[string]resource.Quantity `json:"quantities"`
		Secret     map[string][]byte            `json:"secret"`
		Time       metav1.Time                  `json:"time"`
		Micro      *metav1.MicroTime            `json:"micro"`
		Duration   metav1.Duration              `json:"duration"`
		Plain      time.Time                    `json:"plain"`
		Port       intstr.IntOrString           `json:"port"`
		Raw        runtime.RawExtension         `json:"raw"`
		Fields     *metav1.FieldsV1             `json:"fields"`
		Tree       tree                         `json:"tree"`
	}
	omitEmpty struct {
		Int      int               `json:"int,omitempty"`
		Int8     int8              `json:"int8,omitempty"`
		Uint16   uint16            `json:"uint16,omitempty"`
		Int32    int32             `json:"int32,omitempty"`
		Float32  float32           `json:"float32,omitempty"`
		Float64  float64           `json:"float64,omitempty"`
		Bool     bool              `json:"bool,omitempty"`
		String   named             `json:"string,omitempty"`
		Bytes    []byte            `json:"bytes,omitempty"`
		List     []tree            `json:"list,omitempty"`
		Labels   map[string]string `json:"labels,omitempty"`
		Values   map[named]tree    `json:"values,omitempty"`
		Pointer  *tree             `json:"pointer,omitempty"`
		Struct   Embedded          `json:"struct,omitempty"`
		Time     metav1.Time       `json:"time,omitempty"`
		Quantity resource.Quantity `json:"quantity,omitempty"`
	}
	omitZero struct {
		Int       int               `json:"int,omitzero"`
		String    string            `json:"string,omitzero"`
		List      []string          `json:"list,omitzero"`
		Both      []string          `json:"both,omitempty,omitzero"`
		Labels    map[string]string `json:"labels,omitzero"`
		Pointer   *int              `json:"pointer,omitzero"`
		Struct    Embedded          `json:"struct,omitzero"`
		Either    Embedded          `json:"either,omitempty,omitzero"`
		Value     byValue           `json:"value,omitzero"`
		ByPointer byPointer         `json:"byPointer,omitzero"`
		ToValue   *byValue          `json:"toValue,omitzero"`
		ToPointer *byPointer        `json:"toPointer,omitzero"`
		Time      metav1.Time       `json:"time,omitzero"`
		ToTime    *metav1.Time      `json:"toTime,omitzero"`
		Micro     metav1.MicroTime  `json:"micro,omitzero"`
		Quantity  resource.Quantity `json:"quantity,omitzero"`
	}
	inMap struct {
		Values map[string]omitZero `json:"values"`
	}
)

// IsZero differs from Go's notion of zero.
func (v byValue) IsZero() bool    { return v.N == 7 }
func (v *byPointer) IsZero() bool { return v.N == 7 }

func TestEveryField(t *testing.T) {
	number, text := 1, "<text>"
	toNumber := &number
	long := &metav1.Time{Time: time.Date(2026, 2, 3, 4, 5, 6, 7, time.FixedZone("", 3600))}
	micro := metav1.NewMicroTime(long.Time)
	full := everyField{
		TypeMeta: metav1.TypeMeta{Kind: "Every", APIVersion: "v1"}, Embedded: Embedded{"a"},
		Named: Embedded{"b"}, hidden: "x",
		Int: math.MinInt, Int8: math.MinInt8, Int16: math.MinInt16, Int32: math.MinInt32, Int64: math.MinInt64,
		Uint: math.MaxUint, Uint8: 255, Uint16: 65535, Uint32: math.MaxUint32, Uint64: math.MaxUint64,
		Float32: 1e-7, Float64: 1e21, Bool: true, Bytes: []byte("bytes?>"), Octets: []octet{1, 2}, List: []string{"", "a"},
		Lists: [][]int16{nil, {}, {-1, 2}}, Nothing: []empty{{}, {}}, Pointer: &text, Pointers: &toNumber,
		Labels: map[string]string{"b": "&", "a": "\u2028", "<": ""}, Named2: map[named]named{"z": "1", "y": "2"},
		Values:     map[string]Embedded{"b": {"1"}, "a": {"2"}},
		Resources:  corev1.ResourceList{"memory": resource.MustParse("128Mi"), "cpu": resource.MustParse("100m")},
		Quantities: map[string]resource.Quantity{"q": resource.MustParse("1")},
		Secret:     map[string][]byte{"nil": nil, "empty": {}, "a": []byte("a")},
		Time:       *long, Micro: &micro, Duration: metav1.Duration{Duration: 3 * time.Microsecond}, Plain: long.Time,
		Port: intstr.FromString("<http>"), Raw: runtime.RawExtension{Raw: []byte(` {"a" : "<" } `)},
		Fields: metav1.NewFieldsV1(`{"f:a":{}}`),
		Tree: tree{Next: &tree{Name: "next"}, Children: []tree{{Children: []tree{}}},
			ByName: map[string]*tree{"nil": nil, "a": {}}},
	}
	blank := everyField{
		Bytes: []byte{}, Octets: []octet{}, List: []string{}, Lists: [][]int16{}, Labels: map[string]string{},
		Values: map[string]Embedded{}, Resources: corev1.ResourceList{},
		Float64: math.Copysign(0, -1), Float32: float32(math.Copysign(0, -1)),
		Raw: runtime.RawExtension{Object: &metav1.Status{}}, Fields: &metav1.FieldsV1{},
	}
	minusZero := omitEmpty{Float32: float32(math.Copysign(0, -1)), Float64: math.Copysign(0, -1)}
	objects := []any{
		&everyField{}, &full, &blank, &tree{}, &empty{}, long, &metav1.Time{}, &minusZero,
		tagged(`json:"-"`), tagged(`json:"-,"`), tagged(`json:",omitempty"`),
		&omitEmpty{}, &omitEmpty{Bytes: []byte{}, List: []tree{}, Labels: map[string]string{}, Values: map[named]tree{}},
		&omitEmpty{1, 1, 1 << 8, 1 << 24, 1e-45, 1, true, "a", []byte{0}, []tree{{}}, map[string]string{"": ""},
			map[named]tree{"": {}}, &tree{}, Embedded{}, *long, resource.MustParse("1")},
		&omitZero{}, &omitZero{List: []string{}, Both: []string{}, Labels: map[string]string{}},
		&omitZero{1, "a", []string{"a"}, []string{"a"}, map[string]string{"": ""}, &number,
			Embedded{"a"}, Embedded{"a"}, byValue{7}, byPointer{7}, &byValue{7}, &byPointer{7}, *long, long, micro, resource.MustParse("1")},
		&omitZero{Value: byValue{1}, ByPointer: byPointer{1}, ToValue: &byValue{}, ToPointer: &byPointer{}, ToTime: &metav1.Time{}},
		&inMap{Values: map[string]omitZero{"b": {ByPointer: byPointer{7}}, "a": {Value: byValue{7}}}},
	}
	for _, obj := range objects {
		if !compareEncoding(t, obj) {
			t.Errorf("%T is not covered: %v", obj, encodingOf(reflect.TypeOf(obj).Elem()).err)
		}
	}
}

type (
	pointerWriter struct{ N int }
	textWriter    struct{ N int }
	failing       struct{ Silent bool }
)

func (*pointerWriter) MarshalJSON() ([]byte, error) { return []byte(`"by a pointer"`), nil }
func (textWriter) MarshalText() ([]byte, error)     { return []byte("text"), nil }
func (f failing) MarshalJSON() ([]byte, error) {
	if f.Silent {
		return nil, nil
	}
	return []byte(`{}`), fmt.Errorf("wrong")
}

// tagged makes a struct whose field has an improper tag.
func tagged(tag reflect.StructTag) any {
	field := reflect.StructField{Name: "Field", Type: reflect.TypeFor[int](), Tag: tag}
	return reflect.New(reflect.StructOf([]reflect.StructField{field})).Interface()
}

// TestNotCovered: unusual types and values are refused.
func TestNotCovered(t *testing.T) {
	cycle := &tree{}
	cycle.Next = &tree{Children: []tree{{Next: cycle}, {Next: cycle}}}
	deep := &tree{}
	for range 10 * maxNesting {
		deep = &tree{Next: deep}
	}
	word, words := "a", []string{"a"}
	for _, obj := range []any{
		nil, 1, word, &word, words, &words, map[string]string{}, Embedded{}, (*Embedded)(nil),
		&struct{ Any any }{1}, &struct{ Object runtime.Object }{}, &struct{ Array [2]int }{}, &struct{ Func func() }{},
		&struct{ Complex complex64 }{}, &struct{ Address uintptr }{}, &struct{ Number json.Number }{Number: "1"},
		&struct{ Keys map[int]string }{}, &struct{ Keys map[textWriter]string }{},
		&struct{ *Embedded }{}, &struct{ embedded }{}, &struct {
			Embedded
			Inner string `json:"inner"`
		}{},
		&struct {
			Quoted int `json:"quoted,string"`
		}{},
		tagged(`json:"it's"`), tagged(`json:"a b"`), tagged(`json:"a<b"`), tagged(`json:"é"`),
		&pointerWriter{}, &struct{ Of pointerWriter }{}, &struct{ Of *pointerWriter }{}, &struct{ Of map[string]pointerWriter }{},
		&struct{ Of textWriter }{}, &struct{ Of failing }{}, &struct{ Of failing }{failing{Silent: true}},
		&struct{ Port intstr.IntOrString }{intstr.IntOrString{Type: 5}},
		&struct{ Raw runtime.RawExtension }{runtime.RawExtension{Raw: []byte(`{"a":}`)}},
		&struct{ F float64 }{math.NaN()}, &struct{ F float64 }{math.Inf(-1)}, &struct{ F float32 }{float32(math.Inf(1))},
		cycle, deep,
	} {
		if compareEncoding(t, obj) {
			t.Errorf("%T is covered", obj)
		}
	}
}

// TestQuantities: their text is that of MarshalJSON, cached or not, and they are not changed.
func TestQuantities(t *testing.T) {
	if !quantityTextKnown {
		t.Fatal("quantities do not remember their text where they did")
	}
	for _, text := range []string{
		"0", "1", "-1", "100m", "1500m", "128Mi", "1023", "1024", "-1Gi", "1.5Gi", "3e3", "12E", "1e-9", "1n",
		"1000000000000000000000000Ki", "0.000000001", "123456789012345678901234567890",
		"9223372036854775807", "-9223372036854775808", "1e40",
	} {
		for _, format := range []resource.Format{resource.DecimalSI, resource.DecimalExponent, resource.BinarySI, ""} {
			remembered, fresh := resource.MustParse(text), resource.MustParse(text)
			_ = remembered.String()
			remembered.Format, fresh.Format = format, format
			before := fresh
			obj := struct{ Remembered, Fresh resource.Quantity }{remembered, fresh}
			if !compareEncoding(t, &obj) {
				t.Errorf("%s is not covered", text)
			}
			if !reflect.DeepEqual(obj.Fresh, before) {
				t.Errorf("%s was changed", text)
			}
		}
	}
}

// TestConcurrently is for the race detector: many goroutines compile writers and read an object.
func TestConcurrently(t *testing.T) {
	obj := &apiextensionsv1.CustomResourceDefinition{}
	pod := readPod(t)
	for range 8 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			for range 20 {
				if !compareEncoding(t, obj) || !compareEncoding(t, pod) {
					t.Error("not covered")
				}
			}
		})
	}
}

// FuzzScalars: strings and numbers are those of encoding/json, as keys and as values.
func FuzzScalars(f *testing.F) {
	for _, s := range []string{
		"", "plain", `"\/`, "<a href='x'>&amp;", "\x00\x01\b\f\n\r\t\x1f\x7f", "\u2028\u2029\u2027\u202a",
		"\xff\xc0\xaf", "\xe2\x80", "\ufffd", "é世界😀",
	} {
		f.Add(s, int64(-1), uint64(1), 1e-7, float32(1e21))
	}
	for _, n := range []float64{
		0, math.Copysign(0, -1), 1e-6, 9.99e-7, 1e20, 1e21, -1e21, 123456789e-20, 5e-324, math.MaxFloat64, math.Pi,
		math.Inf(1), math.NaN(),
	} {
		f.Add("", int64(math.MinInt64), uint64(math.MaxUint64), n, float32(n))
	}
	f.Fuzz(func(t *testing.T, s string, i int64, u uint64, f64 float64, f32 float32) {
		obj := struct {
			String string
			Labels map[string]string
			Keys   map[named]int64
			Bytes  []byte
			Ints   []int64
			Small  []int8
			Uints  []uint64
			F64    *float64
			F32    *float32
			Port   intstr.IntOrString
			Time   metav1.Time
			Micro  metav1.MicroTime
		}{
			s, map[string]string{s: s, s + "a": "a", "b": s}, map[named]int64{named(s): i, "b": i}, []byte(s),
			[]int64{i, -i}, []int8{int8(i)}, []uint64{u}, &f64, &f32,
			intstr.FromString(s), metav1.Unix(i>>20, i&0xfffff), metav1.NewMicroTime(time.Unix(i>>20, i&0xfffff)),
		}
		wrong := math.IsNaN(f64) || math.IsInf(f64, 0) || math.IsNaN(float64(f32)) || math.IsInf(float64(f32), 0)
		if compareEncoding(t, &obj) == wrong {
			t.Errorf("%+v: covered is %v", obj, !wrong)
		}
	})
}

func readPod(t testing.TB) *corev1.Pod {
	t.Helper()
	data, err := os.ReadFile("../../server/codec/transcode/testdata/pod.json")
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

// BenchmarkAppend is the cost of the JSON of a pod of 4.8 KB.
func BenchmarkAppend(b *testing.B) {
	pod := readPod(b)
	var buf []byte
	for b.Loop() {
		var ok bool
		if buf, ok = Append(buf[:0], pod); !ok {
			b.Fatal("a pod is not covered")
		}
	}
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
}

// BenchmarkMarshal is the same for encoding/json.
func BenchmarkMarshal(b *testing.B) {
	pod := readPod(b)
	for b.Loop() {
		data, err := json.Marshal(pod)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(data)))
	}
	b.ReportAllocs()
}
