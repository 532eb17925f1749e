package main

import (
	"slices"
	"testing"

	"github.com/rowlock/rowlock/server/controlplane/controllers"
)

// The controllers of bootstrap tokens run where such tokens are accepted, unless --controllers says otherwise.
func TestControllersOfBootstrapTokens(t *testing.T) {
	const tokens = "--enable-bootstrap-token-auth"
	for _, c := range []struct {
		args []string
		want []string
	}{
		{nil, nil},
		{[]string{tokens}, controllers.OffByDefault()},
		{[]string{tokens, "--controllers=*,-token-cleaner-controller"}, []string{"bootstrap-signer-controller"}},
		{[]string{tokens, "--controllers="}, nil},
		{[]string{"--controllers=*,token-cleaner-controller"}, []string{"token-cleaner-controller"}},
	} {
		o, flags := serveFlags(t)
		if err := flags.Parse(append(c.args, "--data-dir="+t.TempDir())); err != nil {
			t.Fatal(err)
		}
		if err := o.complete(); err != nil {
			t.Fatal(err)
		}
		got := slices.DeleteFunc(slices.Clone(o.controllers.enabled), func(name string) bool { return !slices.Contains(controllers.OffByDefault(), name) })
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.args, got, c.want)
		}
	}
}
