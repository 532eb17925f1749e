package codec_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/untyped/untypedtest"
	"github.com/rowlock/rowlock/server/codec"
)

// A list that is being written calls no webhook, although the results that were kept with its objects are gone: a later definition has replaced them.
func TestWrittenListsConvertNothing(t *testing.T) {
	r := resources.NewRegistry()
	if err := untypedtest.Serve(r, untypedtest.Versions()...); err != nil {
		t.Fatal(err)
	}
	v2, ok := r.Catalog().Lookup(schema.GroupVersionResource{Group: untypedtest.Group, Version: "v2", Resource: "toys"})
	if !ok {
		t.Fatal("v2 is not served")
	}
	down := false
	v2.Converted = func(_ context.Context, all []*resources.Object) (made [][]byte, err error) {
		if down {
			err = errors.New("the webhook is called")
		}
		for _, o := range all {
			made = append(made, bytes.Replace(o.Data, []byte("/v1"), []byte("/v2"), 1))
		}
		return made, err
	}
	toy := resources.NewObject(resources.Key{Resource: "toys." + untypedtest.Group, Name: "a"},
		resources.Draft{Data: []byte(`{"apiVersion":"` + untypedtest.Group + `/v1","kind":"Toy","metadata":{"name":"a"}}`)}, 1)
	for _, media := range []string{codec.JSON, codec.YAML} {
		list, err := codec.NewRenderer(v2, codec.Format{Media: media}).List([]*resources.Object{toy}, metav1.ListMeta{})
		if err != nil {
			t.Fatal(err)
		}
		down = true
		var text bytes.Buffer
		if err := list.Write(&text); err != nil || !bytes.Contains(text.Bytes(), []byte("/v2")) {
			t.Errorf("%s: %v: %s", media, err, &text)
		}
		down = false
	}
}
