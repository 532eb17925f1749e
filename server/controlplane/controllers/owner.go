package controllers

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources"
)

// state is what has become of an owner.
type state int

const (
	// solid: it is there, and is to stay as long as it likes.
	solid state = iota
	// dangling: it is gone. A uid does not come back.
	dangling
	// waiting: it is being deleted, and waits for its dependents to go first.
	waiting
)

var (
	// errUnknownKind: the kind of an owner is not served at present. The object is left alone.
	errUnknownKind = errors.New("kind of the owner is not known")
	// errNamespacedOwner: a cluster-scoped object cannot belong to a namespaced one. It is left alone.
	errNamespacedOwner = errors.New("cluster-scoped object with a namespaced owner")
)

// ownerType finds the type that a reference means. With errNamespacedOwner the type is returned as well.
func (g *garbage) ownerType(o owner, of resources.Key) (*resources.Type, error) {
	kinds, err := kindsOf(g.registry.Catalog())
	if err != nil {
		return nil, err
	}
	t, ok := kinds[schema.FromAPIVersionAndKind(o.apiVersion, o.kind)]
	switch {
	case !ok:
		return nil, fmt.Errorf("%w: %s %s", errUnknownKind, o.apiVersion, o.kind)
	case t.Namespaced && of.Namespace == "":
		return t, errNamespacedOwner
	}
	return t, nil
}

// ownerState looks the owner up where the object's reference points to: in its own namespace, or among what has none.
func (g *garbage) ownerState(ctx context.Context, t *resources.Type, o owner, of resources.Key, match resources.Match) (state, error) {
	namespace := ""
	if t.Namespaced {
		namespace = of.Namespace
	}
	live, err := g.store.Get(ctx, t.KeyOf(namespace, o.name), resources.At{Match: match})
	if errors.Is(err, resources.ErrNotFound) {
		return dangling, nil
	}
	if err != nil {
		return 0, err
	}
	switch m := readMetadata(live.Data); {
	case m.uid != o.uid:
		return dangling, nil
	case m.waits():
		return waiting, nil
	}
	return solid, nil
}

// classify looks up all owners. Errors: errUnknownKind, errNamespacedOwner, those of the store.
func (g *garbage) classify(ctx context.Context, of resources.Key, owners []owner) (map[state][]owner, error) {
	byState := map[state][]owner{}
	for _, o := range owners {
		t, err := g.ownerType(o, of)
		if err != nil {
			return nil, err
		}
		s, err := g.ownerState(ctx, t, o, of, resources.MostRecent)
		if err != nil {
			return nil, err
		}
		byState[s] = append(byState[s], o)
	}
	return byState, nil
}

type kindsKey struct{}

// kindsOf returns the stored types of a catalog by the kinds they are served as.
func kindsOf(c *resources.Catalog) (map[schema.GroupVersionKind]*resources.Type, error) {
	kinds, err := c.Memo(kindsKey{}, func() (any, error) {
		kinds := map[schema.GroupVersionKind]*resources.Type{}
		for _, group := range c.Groups() {
			for _, v := range group.Versions {
				for _, s := range v.Resources {
					if s.Stored() {
						kinds[s.GroupVersionKind] = s.Type
					}
				}
			}
		}
		return kinds, nil
	})
	if err != nil {
		return nil, err
	}
	return kinds.(map[schema.GroupVersionKind]*resources.Type), nil
}
