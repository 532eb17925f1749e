package controllers_test

import (
	"context"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/controlplane/controllers"
)

// orchard is another server with an apple in the namespace "doomed".
type orchard struct {
	lists   chan int // the number of each list, sent when it is answered
	listed  int
	first   func()
	deleted atomic.Int64
}

func (o *orchard) Namespaced(context.Context) ([]metav1.APIResource, map[schema.GroupVersion]error, error) {
	return []metav1.APIResource{{Group: "example.com", Version: "v1", Name: "apples", Namespaced: true, Kind: "Apple",
		Verbs: []string{"list", "delete", "deletecollection"}}}, nil, nil
}

func (o *orchard) List(ctx context.Context, _ user.Info, _ schema.GroupVersionResource, _, _ string) (*metav1.PartialObjectMetadataList, error) {
	if o.listed++; o.listed == 1 {
		o.first()
	}
	select {
	case o.lists <- o.listed:
	case <-ctx.Done():
	}
	return &metav1.PartialObjectMetadataList{Items: []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "apple"}}}}, nil
}

func (o *orchard) Delete(context.Context, user.Info, schema.GroupVersionResource, string, string) error {
	o.deleted.Add(1)
	return nil
}

// behind is the store of a server that has not seen yet that a namespace is gone.
type behind struct {
	resources.Store
	gone atomic.Bool
}

func (b *behind) Get(ctx context.Context, key resources.Key, at resources.At) (*resources.Object, error) {
	if b.gone.Load() && at.Match == resources.MostRecent && key == (resources.Key{Resource: "namespaces", Name: "doomed"}) {
		return nil, resources.ErrNotFound
	}
	return b.Store.Get(ctx, key, at)
}

// A former leader that has not noticed that another server completed the deletion of a namespace deletes no objects on other servers:
// they may be in a new namespace with the name.
func TestStalledLeaderDeletesNothingElsewhere(t *testing.T) {
	c := newCluster(t)
	b := &behind{Store: c.store}
	c.theirs = b
	o := &orchard{lists: make(chan int), first: func() { b.gone.Store(true) }}
	c.change = append(c.change, func(config *controllers.Config) { config.Elsewhere = o })
	c.delete(c.namespace("doomed"), background)
	c.start()
	for n := 0; n < 2; { // before it would delete, and after that
		select {
		case n = <-o.lists:
		case <-c.ctx.Done():
			t.Fatal("nobody has looked")
		}
	}
	if n := o.deleted.Load(); n > 0 {
		t.Errorf("it has deleted %d times", n)
	}
}
