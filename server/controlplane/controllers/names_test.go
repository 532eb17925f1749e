package controllers_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rowlock/rowlock/server/controlplane/controllers"
)

func TestSelect(t *testing.T) {
	for _, tt := range []struct{ list, want []string }{
		{[]string{"*"}, controllers.Names()},
		{[]string{"*", "-namespace"}, []string{"garbage-collector-controller", "storage-version-migrator-controller"}},
		{[]string{"-garbage-collector-controller", "*", "-svm"}, []string{"namespace-controller"}},
		{[]string{"garbagecollector"}, []string{"garbage-collector-controller"}},
		{[]string{"namespace-controller", "-namespace", "*"}, controllers.Names()},
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
