package controllers_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rowlock/rowlock/server/controlplane/controllers"
)

func TestSelect(t *testing.T) {
	byDefault := without(controllers.Names(), controllers.OffByDefault()...)
	for _, tt := range []struct{ list, want []string }{
		{[]string{"*"}, byDefault},
		{[]string{"*", "-namespace"}, without(byDefault, "namespace-controller")},
		{[]string{"-garbage-collector-controller", "*"}, without(byDefault, "garbage-collector-controller")},
		{[]string{"garbagecollector"}, []string{"garbage-collector-controller"}},
		{[]string{"namespace-controller", "-namespace", "*"}, byDefault},
		{[]string{"-namespace"}, []string{}},
		{nil, []string{}},
	} {
		got, err := controllers.Select(tt.list)
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%v: %v\n%s", tt.list, err, diff)
		}
	}
	for _, list := range [][]string{{"deployment"}, {"-nothing"}, {""}, {"-*"}} {
		if got, err := controllers.Select(list); err == nil {
			t.Errorf("%v: no error, but %v", list, got)
		}
	}
}

func without(names []string, some ...string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(some, name) })
}
