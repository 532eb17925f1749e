package controllers

import (
	"context"
	"errors"
	"strings"

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

// errNamespacedOwner: a cluster-scoped object cannot belong to a namespaced one. It is left alone.
var errNamespacedOwner = errors.New("cluster-scoped object with a namespaced owner")

// kindOf finds the kind that a reference means, which may be written in lower case, as with kube-controller-manager.
func kindOf(c *resources.Catalog, kind schema.GroupVersionKind) (*resources.Served, bool) {
	if s, ok := c.Kind(kind); ok {
		return s, true
	}
	g, ok := c.Group(kind.Group)
	if !ok {
		return nil, false
	}
	for _, v := range g.Versions {
		for _, s := range v.Resources {
			if v.GroupVersion == kind.GroupVersion() && s.Stored() && strings.ToLower(s.Type.Kind) == kind.Kind {
				return s, true
			}
		}
	}
	return nil, false
}

// ownerType finds the type that a reference means. Errors: absentError; errNamespacedOwner, with which the type is returned
// as well.
func (g *garbage) ownerType(o owner, of resources.Key) (*resources.Type, error) {
	kind := schema.FromAPIVersionAndKind(o.apiVersion, o.kind)
	t, ok := kindOf(g.registry.Catalog(), kind)
	switch {
	case !ok:
		return nil, &absentError{absent{kind: kind}}
	case t.Namespaced && of.Namespace == "":
		return t.Type, errNamespacedOwner
	}
	return t.Type, nil
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

// classify looks up all owners. Errors: absentError, errNamespacedOwner, those of the store.
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
