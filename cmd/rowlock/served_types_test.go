package main

import (
	"testing"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rowlock/rowlock/sqlstore"
)

// A type is found by each name that kubectl accepts, also when groups have the same name. A type that is not served is
// found by its names in a backup.
func TestNamesOfTypes(t *testing.T) {
	group := func(name, plural, short, kind string) apidiscoveryv2.APIGroupDiscovery {
		return apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: name}, Versions: []apidiscoveryv2.APIVersionDiscovery{{Version: "v1", Resources: []apidiscoveryv2.APIResourceDiscovery{{
			Resource: plural, ShortNames: []string{short}, ResponseKind: &metav1.GroupVersionKind{Group: name, Version: "v1", Kind: kind}}}}}}
	}
	served := servedTypes{group("", "pods", "po", "Pod"), group("example.com", "boats", "bt", "Boat"), group("example.org", "boats", "bt", "Boat"),
		group("events.k8s.io", "events", "ev", "Event"), group("example.net", "bts", "", "Bt"), group("a.example.com", "rafts", "oars", "Raft"), group("b.example.com", "oars", "", "Oar")}
	rowOfType := func(resource, kind string) sqlstore.Row {
		r := sqlstore.Row{Data: `{"kind":"` + kind + `"}`}
		r.Resource, r.Name = resource, "a"
		return r
	}
	for _, tc := range []struct {
		said, resource, kind string
		want                 bool
	}{
		{"po", "pods", "Pod", true},
		{"PODS", "pods", "Pod", true},
		{"pods.v1.", "pods", "Pod", true},
		{"boat", "boats.example.com", "Boat", true},       // by its kind
		{"events.events.k8s.io", "events", "Event", true}, // Events are stored under their older name
		{"events.v1.events.k8s.io", "events", "Event", true},
		{"bt", "boats.example.com", "Boat", true},
		{"bt", "boats.example.org", "Boat", false}, // the first group has this short name
		{"bt.example.org", "boats.example.org", "Boat", true},
		{"boats.v1.example.org", "boats.example.org", "Boat", true},
		{"boats.v2.example.org", "boats.example.org", "Boat", false},
		{"pods.example.org", "pods", "Pod", false},
		{"oars", "oars.b.example.com", "Oar", true}, // a plural precedes another type's short name
		{"oars", "rafts.a.example.com", "Raft", false},
		{"bt", "bts.example.net", "Bt", false},       // a short name precedes another type's kind
		{"sails", "sails.example.com", "Sail", true}, // not served
		{"sails.example.com", "sails.example.com", "Sail", true},
		{"sail", "sails.example.com", "Sail", true},
		{"sails.example.org", "sails.example.com", "Sail", false},
	} {
		o := partOptions{objects: []string{tc.said + "/a"}}
		if named := o.named(served); named[0].is(rowOfType(tc.resource, tc.kind)) != tc.want {
			t.Errorf("%s is one of %s: %v", tc.said, tc.resource, !tc.want)
		}
	}
}
