// Package builtintest makes objects of every built-in type, for tests of behaviour that all of them share.
package builtintest

import (
	"math/rand"
	"testing"

	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/meta"
	apitesting "k8s.io/kubernetes/pkg/api/testing"

	crdfuzzer "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/fuzzer"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
)

// StoredTypes returns the types that are stored, each in its storage version.
func StoredTypes(t testing.TB) []*resources.Served {
	t.Helper()
	r := resources.NewRegistry()
	r.SetGroups(builtin.Groups())
	var out []*resources.Served
	for _, g := range r.Catalog().Groups() {
		for _, v := range g.Versions {
			for _, s := range v.Resources {
				if s.Stored() && s.GroupVersion() == s.StorageVersion {
					out = append(out, s)
				}
			}
		}
	}
	return out
}

// Random returns an object of a type in its stored form, made by upstream's fuzzers; equal seeds make equal objects.
func Random(t testing.TB, s *resources.Served, seed int64) []byte {
	t.Helper()
	f := fuzzer.FuzzerFor(fuzzer.MergeFuzzerFuncs(apitesting.FuzzerFuncs, crdfuzzer.Funcs), rand.NewSource(seed), builtin.Codecs)
	hub := s.New()
	f.NilChance(0.4).NumElements(0, 3).Fill(hub)
	d, err := s.NewDraft(t.Context(), hub)
	if err != nil {
		t.Fatal(err)
	}
	m, err := meta.Accessor(hub)
	if err != nil {
		t.Fatal(err)
	}
	return resources.NewObject(s.KeyOf(m.GetNamespace(), m.GetName()), d, 123456789).Data
}
