package controllers

import (
	"context"
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources"
)

// state is the state of an owner.
type state int

const (
	// solid: the owner exists and does not wait for its dependents.
	solid state = iota
	// dangling: the owner is gone. A uid does not come back.
	dangling
	// waiting: the owner is being deleted, and waits for its dependents to go first.
	waiting
)

// errNamespacedOwner says that a cluster-scoped object refers to a namespaced owner, which is not valid. The object is left alone.
var errNamespacedOwner = errors.New("cluster-scoped object with a namespaced owner")

// kindOf finds the kind of a reference, which may be written in lower case, as in kube-controller-manager.
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

// ownerType finds the type of a reference. Errors: absentError; errNamespacedOwner, with which the type is returned as
// well.
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

// ownerState looks up an owner where the reference points to: in the object's own namespace, or among cluster-scoped objects.
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

// classify looks up all owners, and groups them by their state. An owner that this server does not have is not known if its version is proxied to another
// server. Errors: absentError, errNamespacedOwner, those of the store.
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
		if s == dangling {
			until := absent{apiService: apiServiceOf(o.gvk().GroupVersion())}
			// The watch cache is as recent as the owner's state, which has just been read at MostRecent: another query would say nothing more.
			switch there, err := isProxied(ctx, g.store, until.apiService); {
			case err != nil:
				return nil, err
			case there:
				return nil, &absentError{until}
			}
		}
		byState[s] = append(byState[s], o)
	}
	return byState, nil
}
