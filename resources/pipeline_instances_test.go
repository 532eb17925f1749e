package resources_test

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rowlock/rowlock/resources"
)

// The objects of a definition that is deleted are deleted without authorization, admission and audit.
func TestPipelineDeletesInstancesUnreviewed(t *testing.T) {
	w := newWay(t)
	maps := w.typeOf("configmaps")
	create := &resources.CreateRequest{Type: maps, Decode: func() (runtime.Object, error) { return w.config("a"), nil }}
	o, err := w.Create(w.request("create", maps, "a"), create)
	if err != nil {
		t.Fatal(err)
	}
	w.steps, w.denied, w.unrecorded = nil, "deletecollection", errors.New("no audit")
	all := resources.CollectionRequest{Type: maps, Options: &metav1.DeleteOptions{}, Select: func() ([]*resources.Object, error) { return []*resources.Object{o}, nil }}
	w.expect(w.DeleteInstances(w.request("deletecollection", maps, ""), &all), "")
	if _, err := w.store.Get(t.Context(), o.Key, resources.At{Match: resources.MostRecent}); !errors.Is(err, resources.ErrNotFound) {
		t.Errorf("the object is still there: %v", err)
	}
}
