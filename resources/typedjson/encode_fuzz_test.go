package typedjson_test

import (
	"math/rand"
	"reflect"
	"sort"
	"testing"

	crdfuzzer "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/fuzzer"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/resource"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	apitesting "k8s.io/kubernetes/pkg/api/testing"
	"sigs.k8s.io/randfill"

	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/resources/typedjson"
)

// versionedKinds are all built-in kinds in all their versions.
func versionedKinds() []schema.GroupVersionKind {
	var out []schema.GroupVersionKind
	for kind := range builtin.Scheme.AllKnownTypes() {
		if kind.Version != runtime.APIVersionInternal {
			out = append(out, kind)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].String() < out[j].String() })
	return out
}

// converted makes an object in the store's form: converted from the hub form. It is nil for a kind without a hub form.
func converted(t testing.TB, kind schema.GroupVersionKind, seed int64) runtime.Object {
	internal := schema.GroupVersion{Group: kind.Group, Version: runtime.APIVersionInternal}
	hub, err := builtin.Scheme.New(internal.WithKind(kind.Kind))
	if err != nil {
		return nil
	}
	fill(hub, seed, apitesting.FuzzerFuncs, crdfuzzer.Funcs)
	obj, err := builtin.Scheme.ConvertToVersion(hub, kind.GroupVersion())
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

// filled makes an object with any values that the fields of the version can have.
func filled(t testing.TB, kind schema.GroupVersionKind, seed int64) runtime.Object {
	obj, err := builtin.Scheme.New(kind)
	if err != nil {
		t.Fatal(err)
	}
	fill(obj, seed, metafuzzer.Funcs, anything)
	return obj
}

func fill(obj runtime.Object, seed int64, funcs ...fuzzer.FuzzerFuncs) {
	f := fuzzer.FuzzerFor(fuzzer.MergeFuzzerFuncs(funcs...), rand.NewSource(seed), builtin.Codecs)
	f.NilChance(0.4).NumElements(0, 3).Fill(obj)
}

// anything are functions for types whose values upstream's fuzzers leave plain.
func anything(serializer.CodecFactory) []any {
	return []any{
		func(s *string, c randfill.Continue) {
			*s = []string{"", "plain", "<&>", "\u2028\x00\"\\", "\xff\xe2\x80", c.String(0), c.String(0)}[c.Intn(7)]
		},
		func(q *resource.Quantity, c randfill.Continue) {
			*q = resource.MustParse([]string{"0", "100m", "128Mi", "1.5Gi", "1e30", "-3", "12345678901234567890123"}[c.Intn(7)])
			if c.Bool() {
				_ = q.String()
			}
			q.Format = []resource.Format{resource.DecimalSI, resource.BinarySI, resource.DecimalExponent}[c.Intn(3)]
		},
		func(m *metav1.ManagedFieldsEntry, c randfill.Continue) {
			c.FillNoCustom(m)
			m.FieldsV1 = metav1.NewFieldsV1(string(rawJSON(c)))
		},
		func(r *runtime.RawExtension, c randfill.Continue) { r.Raw = rawJSON(c) },
		func(j *apiextensionsv1.JSON, c randfill.Continue) { j.Raw = rawJSON(c) },
		func(j *apiextensionsv1beta1.JSON, c randfill.Continue) { j.Raw = rawJSON(c) },
		func(s *apiextensionsv1.JSONSchemaProps, c randfill.Continue) { fillSome(s, c) },
		func(s *apiextensionsv1beta1.JSONSchemaProps, c randfill.Continue) { fillSome(s, c) },
	}
}

func rawJSON(c randfill.Continue) []byte {
	return []byte([]string{
		`{}`, `{"f:metadata":{"f:labels":{".":{},"f:a":{}}}}`, `{"k:{\"name\":\"a\"}":{}}`,
		` { "a" : [ 1 , -2.5e7 ] } `, `"<&>"`, "[\"\u2028\",\"é\"]",
	}[c.Intn(6)])
}

// fillSome fills few of the fields of a highly recursive type, so that it terminates.
func fillSome(s any, c randfill.Continue) {
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		if c.Intn(10) == 0 {
			c.Fill(v.Field(i).Addr().Interface())
		}
	}
}

// TestAppendAgrees: the JSON of every built-in kind, in every version, is that of encoding/json, and all are covered.
func TestAppendAgrees(t *testing.T) {
	for _, kind := range versionedKinds() {
		t.Run(kind.String(), func(t *testing.T) {
			for seed := range int64(10) {
				appendAgrees(t, kind, seed)
			}
		})
	}
}

// FuzzAppendAgrees is TestAppendAgrees without end.
func FuzzAppendAgrees(f *testing.F) {
	kinds := versionedKinds()
	f.Add(int64(1), uint16(1))
	f.Fuzz(func(t *testing.T, seed int64, n uint16) { appendAgrees(t, kinds[int(n)%len(kinds)], seed) })
}

func appendAgrees(t testing.TB, kind schema.GroupVersionKind, seed int64) {
	t.Helper()
	for _, obj := range []runtime.Object{filled(t, kind, seed), converted(t, kind, seed)} {
		if obj != nil && !typedjson.CompareEncoding(t, obj) {
			t.Fatalf("%T is not covered", obj)
		}
	}
}
