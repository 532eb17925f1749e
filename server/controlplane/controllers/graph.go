package controllers

import (
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rowlock/rowlock/resources"
)

// graph holds owners and dependents. It has the objects that are not plain, and for every uid that an object refers to,
// whether or not an object has it, the objects that refer to it.
type graph struct {
	mu         sync.Mutex
	nodes      map[types.UID]*node
	dependents map[types.UID]sets.Set[*node]
	// resources and kinds are the nodes by their resource, and by the kinds of their owners in lower case.
	resources map[string]sets.Set[*node]
	kinds     map[schema.GroupKind]sets.Set[*node]
	// missing are the objects of types that are not served at present. They may be deleted meanwhile.
	missing map[string]sets.Set[types.UID]
}

// node is an object of the graph. All but its key and uid is guarded by graph.mu.
type node struct {
	key resources.Key
	metadata
}

func (g *graph) clear() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.nodes, g.dependents = map[types.UID]*node{}, map[types.UID]sets.Set[*node]{}
	g.resources, g.kinds = map[string]sets.Set[*node]{}, map[schema.GroupKind]sets.Set[*node]{}
	g.missing = map[string]sets.Set[types.UID]{}
}

// change says how a new state of an object affects others.
type change struct {
	// owners: the owner references differ from before.
	owners bool
	// orphans: the dependents of the object now have to be orphaned.
	orphans bool
	// look are the objects that may have to be deleted, or may be released, as a result.
	look []types.UID
}

// put adds or updates an object.
func (g *graph) put(key resources.Key, m metadata) change {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.missing[key.Resource].Delete(m.uid)
	n, known := g.nodes[m.uid]
	if !known {
		if m.plain() {
			return change{}
		}
		n = &node{key: key}
		n.uid = m.uid
		g.nodes[m.uid] = n
		insert(g.resources, key.Resource, n)
	}
	before := n.metadata
	n.metadata = m
	var c change
	if c.owners = !slices.Equal(before.owners, m.owners); c.owners {
		g.unlink(n, before.owners)
		g.link(n)
		c.look = g.unblocked(before.owners, m.owners)
	}
	c.orphans = m.orphans() && !before.orphans()
	if m.waits() && !before.waits() && !c.orphans {
		c.look = append(g.referring(m.uid), m.uid)
	}
	if m.plain() {
		g.discard(n)
	}
	return c
}

// remove removes a deleted object, and returns the objects that may have to be deleted, or may be released, as a result.
func (g *graph) remove(uid types.UID) []types.UID {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.drop(uid)
}

func (g *graph) drop(uid types.UID) []types.UID {
	look := g.referring(uid)
	n, ok := g.nodes[uid]
	if !ok {
		return look
	}
	g.discard(n)
	g.unlink(n, n.owners)
	return append(look, g.unblocked(n.owners, nil)...)
}

// leave records that a type is no longer served. It returns the objects that refer to its kind, each with the kind it refers to.
func (g *graph) leave(resource string, kind schema.GroupKind) map[types.UID]absent {
	g.mu.Lock()
	defer g.mu.Unlock()
	refer, missing := map[types.UID]absent{}, sets.Set[types.UID]{}
	for n := range g.resources[resource] {
		missing.Insert(n.uid)
	}
	for n := range g.kinds[lower(kind)] {
		for _, o := range n.owners {
			if k := o.gvk(); k.Group == kind.Group && (k.Kind == kind.Kind || k.Kind == strings.ToLower(kind.Kind)) {
				refer[n.uid] = absent{kind: k}
			}
		}
	}
	if missing.Len() > 0 {
		g.missing[resource] = missing
	}
	return refer
}

// missed removes the objects of a type that were not put since leave, and returns the objects that may have to be
// deleted, or may be released, as a result.
func (g *graph) missed(resource string) (look []types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for uid := range g.missing[resource] {
		look = append(look, g.drop(uid)...)
	}
	delete(g.missing, resource)
	return look
}

// unblocked returns the owners that wait for their dependents and that a reference no longer blocks.
func (g *graph) unblocked(before, now []owner) []types.UID {
	var free []types.UID
	blocked := sets.Set[types.UID]{}
	for _, o := range now {
		if o.blocks {
			blocked.Insert(o.uid)
		}
	}
	for _, o := range before {
		if n, ok := g.nodes[o.uid]; ok && o.blocks && n.waits() && !blocked.Has(o.uid) {
			free = append(free, o.uid)
		}
	}
	return free
}

func (g *graph) discard(n *node) {
	delete(g.nodes, n.uid)
	remove(g.resources, n.key.Resource, n)
}

func (g *graph) link(n *node) {
	for _, o := range n.owners {
		insert(g.dependents, o.uid, n)
		insert(g.kinds, lower(o.gvk().GroupKind()), n)
	}
}

func (g *graph) unlink(n *node, owners []owner) {
	for _, o := range owners {
		remove(g.dependents, o.uid, n)
		remove(g.kinds, lower(o.gvk().GroupKind()), n)
	}
}

func (o owner) gvk() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(o.apiVersion, o.kind)
}

// lower returns a kind in lower case, in which a reference may name it.
func lower(k schema.GroupKind) schema.GroupKind {
	k.Kind = strings.ToLower(k.Kind)
	return k
}

func insert[K comparable](index map[K]sets.Set[*node], key K, n *node) {
	if index[key] == nil {
		index[key] = sets.Set[*node]{}
	}
	index[key].Insert(n)
}

func remove[K comparable](index map[K]sets.Set[*node], key K, n *node) {
	if index[key].Delete(n).Len() == 0 {
		delete(index, key)
	}
}

func (g *graph) referring(uid types.UID) []types.UID {
	uids := make([]types.UID, 0, len(g.dependents[uid]))
	for n := range g.dependents[uid] {
		uids = append(uids, n.uid)
	}
	return uids
}

// node returns a copy of a node.
func (g *graph) node(uid types.UID) (node, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n, ok := g.nodes[uid]; ok {
		return *n, true
	}
	return node{}, false
}

// dependentsOf returns copies of the objects that refer to an owner.
func (g *graph) dependentsOf(uid types.UID) []node {
	g.mu.Lock()
	defer g.mu.Unlock()
	nodes := make([]node, 0, len(g.dependents[uid]))
	for n := range g.dependents[uid] {
		nodes = append(nodes, *n)
	}
	return nodes
}

// blocked tells whether a dependent blocks an owner that waits for its dependents.
func (g *graph) blocked(uid types.UID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for n := range g.dependents[uid] {
		if slices.ContainsFunc(n.owners, func(o owner) bool { return o.uid == uid && o.blocks }) {
			return true
		}
	}
	return false
}
