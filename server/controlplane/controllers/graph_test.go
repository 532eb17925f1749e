package controllers

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rowlock/rowlock/resources"
)

// A type that is no longer served concerns its objects and those that refer to its kind, after any sequence of changes.
func TestLeave(t *testing.T) {
	var g graph
	g.clear()
	random := rand.New(rand.NewPCG(1, 2))
	versions, kinds := []string{"v1", "example.com/v1", "example.com/v2", "not/a/version"}, []string{"Toy", "toy", "TOY", "Other"}
	type object struct {
		resource string
		metadata
	}
	stored := map[types.UID]object{}
	for range 2000 {
		n := random.IntN(50)
		uid, o := types.UID(fmt.Sprint(n)), object{resource: fmt.Sprint(n%3, ".example.com")} // an object stays in its resource
		o.uid, o.deleting, o.foreground = uid, random.IntN(4) == 0, random.IntN(2) == 0
		for range random.IntN(4) {
			o.owners = append(o.owners, owner{uid: types.UID(fmt.Sprint(random.IntN(50))), apiVersion: versions[random.IntN(len(versions))], kind: kinds[random.IntN(len(kinds))]})
		}
		if random.IntN(4) == 0 {
			g.remove(uid)
			delete(stored, uid)
		} else {
			g.put(resources.Key{Resource: o.resource, Name: string(uid)}, o.metadata)
			stored[uid] = o
		}
		resource, kind := fmt.Sprint(random.IntN(3), ".example.com"), schema.GroupKind{Group: "example.com", Kind: "Toy"}
		refer, missing := map[types.UID]absent{}, sets.Set[types.UID]{}
		for uid, o := range stored {
			if o.resource == resource && !o.plain() {
				missing.Insert(uid)
			}
			for _, owner := range o.owners {
				if k := schema.FromAPIVersionAndKind(owner.apiVersion, owner.kind); k.Group == kind.Group && (k.Kind == "Toy" || k.Kind == "toy") {
					refer[uid] = absent{kind: k}
				}
			}
		}
		if diff := cmp.Diff(refer, g.leave(resource, kind), cmp.AllowUnexported(absent{})); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(missing, g.missing[resource], cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
		clear(g.missing)
	}
	for uid := range stored {
		g.remove(uid)
	}
	if n := len(g.nodes) + len(g.dependents) + len(g.resources) + len(g.kinds); n > 0 {
		t.Errorf("an empty graph has %d entries", n)
	}
}

// A type that is no longer served costs nothing for the objects that it does not concern: there may be many of both.
func TestLeaveVisitsNoOther(t *testing.T) {
	var g graph
	g.clear()
	toy := owner{uid: "toy", apiVersion: "example.com/v1", kind: "Toy"}
	g.put(resources.Key{Resource: "configmaps", Name: "a"}, metadata{uid: "a", owners: []owner{toy}})
	g.nodes["other"] = nil // nobody can look at it
	refer := g.leave("toys.example.com", schema.GroupKind{Group: "example.com", Kind: "Toy"})
	if diff := cmp.Diff(map[types.UID]absent{"a": {kind: toy.gvk()}}, refer, cmp.AllowUnexported(absent{})); diff != "" {
		t.Error(diff)
	}
}
