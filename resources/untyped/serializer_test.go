package untyped_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/resources/untyped"
	"github.com/rowlock/rowlock/resources/untyped/untypedtest"
)

// The labels and fields that a store keeps besides an object's bytes share no memory with the text that was sent, which may have three
// megabytes: an object stays for years.
func TestWhatIsKeptKeepsNoText(t *testing.T) {
	defer fastpath.JSONDecode.Turn(true)()
	v := untypedtest.Versions()[0]
	v.Selectable = []string{"spec.color"}
	toys, err := v.Type()
	if err != nil {
		t.Fatal(err)
	}
	s := toys.Scheme.(*untyped.Scheme)
	s.Clean = func(string, map[string]any) bool { return true }
	body := fmt.Appendf(nil, `{"apiVersion":%q,"kind":"Toy","metadata":{"name":"ball","labels":{"shape":"round"}},"spec":{"color":"red","notes":%q}}`,
		v.GV(), strings.Repeat("a", 4096))
	obj, ok := s.DecodeClean(body, v.GV().WithKind("Toy"))
	if !ok {
		t.Fatal("the body is not read")
	}
	if name := obj.(*unstructured.Unstructured).GetName(); !within(body, name) {
		t.Fatal("the name is no part of the body to begin with")
	}
	writes, err := resources.PrepareCreate(genericapirequest.WithNamespace(t.Context(), "test"), noObjects{}, toys, obj)
	if err != nil {
		t.Fatal(err)
	}
	w := writes[0]
	kept := []string{w.Key.Name, w.Key.Namespace, w.Key.Resource}
	for _, set := range []map[string]string{w.Draft.Labels, w.Draft.Fields} {
		for name, value := range set {
			kept = append(kept, name, value)
		}
	}
	if len(w.Draft.Labels) != 1 || w.Key.Name != "ball" {
		t.Errorf("the object is kept as %v with the labels %v", w.Key, w.Draft.Labels)
	}
	for _, s := range kept {
		if within(body, s) || within(w.Draft.Data, s) {
			t.Errorf("%q is a part of the text", s)
		}
	}
}

// within reports whether a string shares the memory of data.
func within(data []byte, s string) bool {
	begin, at := uintptr(unsafe.Pointer(unsafe.SliceData(data))), uintptr(unsafe.Pointer(unsafe.StringData(s)))
	return s != "" && begin <= at && at < begin+uintptr(len(data))
}

// noObjects is an empty store.
type noObjects struct{ resources.Reader }

func (noObjects) Get(context.Context, resources.Key, resources.At) (*resources.Object, error) {
	return nil, resources.ErrNotFound
}
