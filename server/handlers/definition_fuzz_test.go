package handlers

import (
	"encoding/json"
	"math/rand"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	crdfuzzer "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/fuzzer"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"

	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/resources/fastpath"
)

// FuzzDefinitionThroughText checks that throughText makes the same CustomResourceDefinition as upstream's converter.
func FuzzDefinitionThroughText(f *testing.F) {
	f.Cleanup(fastpath.JSONDecode.Turn(true))
	f.Cleanup(fastpath.JSONEncode.Turn(true))
	for seed := range int64(40) {
		f.Add(seed)
	}
	kind := apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")
	f.Fuzz(func(t *testing.T, seed int64) {
		hub := &apiextensions.CustomResourceDefinition{}
		fuzzer.FuzzerFor(fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, crdfuzzer.Funcs), rand.NewSource(seed), builtin.Codecs).Fill(hub)
		versioned, err := builtin.Scheme.ConvertToVersion(hub, kind.GroupVersion())
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(versioned)
		if err != nil {
			t.Skip(err)
		}
		u, got := &unstructured.Unstructured{}, &apiextensionsv1.CustomResourceDefinition{}
		if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &u.Object); err != nil {
			t.Fatal(err)
		}
		want, err := builtin.Scheme.UnsafeConvertToVersion(u.DeepCopy(), kind.GroupVersion())
		if err != nil {
			t.Skip(err)
		}
		if !throughText(u, got) {
			t.Fatalf("is not covered: %s", text)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("-upstream +through the text:\n%s", cmp.Diff(want, got))
		}
	})
}
