package imports

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rowlock/rowlock/resources"
)

// FuzzImport reads any value under a key: an imported object is JSON, matches its key, and has a resourceVersion to fill in.
func FuzzImport(f *testing.F) {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a", Labels: map[string]string{"x": "y"}}}
	message, err := pod.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	protobuf, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Pod"}, Raw: message}).Marshal()
	if err != nil {
		f.Fatal(err)
	}
	types, err := New("/registry", nil)
	if err != nil {
		f.Fatal(err)
	}
	const definition = `{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"CustomResourceDefinition","metadata":{"name":"boats.example.com"},"spec":{"group":"example.com",
		"version":"v1","scope":"Namespaced","names":{"plural":"boats","kind":"Boat"}}}`
	if _, err := types.Import(f.Context(), "/registry/"+crdPlace+"/boats.example.com", []byte(definition)); err != nil {
		f.Fatal(err)
	}
	for _, seed := range [][2]string{
		{"/registry/" + crdPlace + "/boats.example.com", definition},
		{"/registry/example.com/boats/n/a", `{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":"a","namespace":"n","resourceVersion":"1"},"spec":null}`},
		{"/registry/example.com/boats/n/a", `{"apiVersion":"example.com/v1","kind":"Boat","metadata":null}`},
		{"/registry/pods/n/a", "k8s\x00" + string(protobuf)},
		{"/registry/services/specs/n/a", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"a","namespace":"n"}}`},
		{"/registry/minions/a", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"a"}}`},
		{"/registry/minions/a", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"a","namespace":"n"}}`},
		{"/registry/minions", `{"apiVersion":"v1","kind":"Node"}`},
		{"/registry/secrets/n/a", "k8s:enc:aescbc:v1:key:"},
		{"/registry/ranges/serviceips", "k8s\x00"},
		{"/registry", "null"},
	} {
		f.Add(seed[0], []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, key string, stored []byte) {
		own := *types
		own.defined = maps.Clone(types.defined) // a definition of one run is unknown to the next
		o, err := own.Import(t.Context(), key, stored)
		if err != nil {
			return
		}
		d := o.Draft
		if !json.Valid(d.Data) || string(d.Data[d.RevisionStart:d.RevisionEnd]) != resources.PlaceholderRevision {
			t.Errorf("%s: the place of the resourceVersion is %d to %d of %s", key, d.RevisionStart, d.RevisionEnd, d.Data)
		}
		if o.Key.Name == "" || !strings.HasSuffix(key, o.Key.Name) || o.Key.Namespace != "" && !strings.HasSuffix(key, "/"+o.Key.Namespace+"/"+o.Key.Name) {
			t.Errorf("%s is imported as %v", key, o.Key)
		}
	})
}
