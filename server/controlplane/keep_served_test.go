package controlplane_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
)

// counted is a strategy that counts the objects created with it.
type counted struct {
	rest.RESTCreateStrategy
	made *atomic.Int64
}

func (c counted) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	c.made.Add(1)
	c.RESTCreateStrategy.PrepareForCreate(ctx, obj)
}

// Chores work for types that appear while the server runs, and use the strategy of the types that replace them.
func TestKeepTypesThatComeAndChange(t *testing.T) {
	k := newWhole(t, nil)
	network := k.services()
	groups := []string{"flowcontrol.apiserver.k8s.io", "networking.k8s.io"}
	k.registry.Edit(func(e *resources.Edit) {
		for _, name := range groups {
			e.RemoveGroup(name)
		}
	})
	k.keep(network)
	const flows, addresses = "flowschemas.flowcontrol.apiserver.k8s.io", "ipaddresses.networking.k8s.io"
	const flow, address = flowSchemas + "/probes", "/apis/networking.k8s.io/v1/ipaddresses/10.43.0.1"
	for range 2 {
		made := serveCounted(k.registry, flows, addresses)
		for _, o := range []struct{ name, path string }{{flows, flow}, {addresses, address}} {
			// A chore that has not noticed the new types may still restore the object a few times, but not for ever.
			for n := 0; made[o.name].Load() == 0; n++ {
				if n == 100 {
					t.Fatalf("%s are made by the rules of a type that is no longer served", o.name)
				}
				was := k.send("GET", o.path, "")
				k.send("DELETE", o.path, "")
				k.back(o.name, o.path, was)
			}
		}
	}
}

// serveCounted registers the built-in types again, and returns counters of the objects that are created by the new strategies.
func serveCounted(r *resources.Registry, names ...string) map[string]*atomic.Int64 {
	made := map[string]*atomic.Int64{}
	specs := builtin.Groups()
	for _, g := range specs {
		for _, v := range g.Versions {
			for _, t := range v.Types {
				if name := t.ResourceName(); slices.Contains(names, name) && made[name] == nil {
					made[name] = &atomic.Int64{}
					t.CreateStrategy = counted{t.CreateStrategy, made[name]}
				}
			}
		}
	}
	r.SetGroups(specs)
	return made
}
