package resources_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rowlock/rowlock/resources"
)

// oneObject is a store with one object, or with the error of all reads.
type oneObject struct {
	resources.Reader
	object *resources.Object
	err    error
}

func (s oneObject) Get(_ context.Context, _ resources.Key, at resources.At) (*resources.Object, error) {
	if at.Match != resources.MostRecent {
		return nil, errors.New("the object at hand may be an old one")
	}
	return s.object, s.err
}

// An error which says that an object is gone counts only where the store says the same.
func TestUnlessGone(t *testing.T) {
	things := schema.GroupResource{Resource: "things"}
	notFound, conflict := apierrors.NewNotFound(things, "a"), apierrors.NewConflict(things, "a", errors.New("changed"))
	live := oneObject{object: &resources.Object{Revision: 7, Data: []byte(`{"metadata":{"name":"a","uid":"u"}}`)}}
	none, unknown := oneObject{err: resources.ErrNotFound}, oneObject{err: resources.ErrUnavailable}
	for _, c := range []struct {
		store    oneObject
		uid      types.UID
		revision int64
		err      error
		gone     bool
	}{
		{none, "u", 7, notFound, true}, {none, "", 0, conflict, true}, {none, "", 0, fmt.Errorf("wrapped: %w", resources.ErrNotFound), true},
		{live, "u", 7, conflict, false}, {live, "u", 0, notFound, false}, {live, "", 0, notFound, false}, {live, "", 7, resources.ErrNotFound, false},
		{live, "other", 0, conflict, true}, {live, "u", 6, conflict, true}, {live, "", 6, notFound, true},
		{unknown, "u", 7, notFound, false},
		{none, "u", 7, apierrors.NewForbidden(things, "a", errors.New("no")), false}, {none, "u", 7, resources.ErrUnavailable, false},
	} {
		got := resources.UnlessGone(t.Context(), c.store, resources.Key{Resource: "things", Name: "a"}, c.uid, c.revision, c.err)
		if (got == nil) != c.gone || !c.gone && !errors.Is(got, c.err) {
			t.Errorf("%v with %q at %d, where there is %v: %v", c.err, c.uid, c.revision, c.store, got)
		}
	}
	if err := resources.UnlessGone(t.Context(), live, resources.Key{}, "", 0, nil); err != nil {
		t.Error(err)
	}
}
