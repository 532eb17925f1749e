package controllers_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rowlock/rowlock/server/controlplane/controllers"
)

func TestSelect(t *testing.T) {
	byDefault := without(controllers.Names(), controllers.OffByDefault()...)
	for _, tt := range []struct {
		list, want      []string
		bootstrapTokens bool
	}{
		{[]string{"*"}, byDefault, false},
		{[]string{"*", "-namespace"}, without(byDefault, "namespace-controller"), false},
		{[]string{"-garbage-collector-controller", "*"}, without(byDefault, "garbage-collector-controller"), false},
		{[]string{"garbagecollector"}, []string{"garbage-collector-controller"}, false},
		{[]string{"namespace-controller", "-namespace", "*"}, byDefault, false},
		{[]string{"-namespace"}, []string{}, false},
		{nil, []string{}, false},
		{[]string{"*"}, controllers.Names(), true},
		{[]string{"-tokencleaner", "*"}, without(controllers.Names(), "token-cleaner-controller"), true},
		{[]string{"namespace"}, []string{"namespace-controller"}, true},
		{nil, []string{}, true},
	} {
		got, err := controllers.Select(tt.list, tt.bootstrapTokens)
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%v: %v\n%s", tt.list, err, diff)
		}
	}
	for _, list := range [][]string{{"deployment"}, {"-nothing"}, {""}, {"-*"}} {
		if got, err := controllers.Select(list, true); err == nil {
			t.Errorf("%v: no error, but %v", list, got)
		}
	}
}

func without(names []string, some ...string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(some, name) })
}
