package aggregate_test

import (
	"testing"

	"github.com/tidwall/gjson"
)

// Short reads have HTTP/1.1 connections of their own. Writes, which could not be repeated if such a connection had just been closed, and
// long requests share HTTP/2 connections.
func TestConnectionsOfReads(t *testing.T) {
	f := newFixture(t)
	f.register()
	f.condition("Passed")
	for _, c := range []struct{ method, path, protocol string }{
		{"GET", "/namespaces/default/apples/a", "HTTP/1.1"},
		{"GET", "/apples?limit=5", "HTTP/1.1"},
		{"GET", "/namespaces/default/apples/a/log?follow=true", "HTTP/2.0"},
		{"POST", "/namespaces/default/apples", "HTTP/2.0"},
		{"PUT", "/namespaces/default/apples/a", "HTTP/2.0"},
		{"PATCH", "/namespaces/default/apples/a", "HTTP/2.0"},
		{"DELETE", "/namespaces/default/apples/a", "HTTP/2.0"},
	} {
		answer := f.must(c.method, apples+c.path, "")
		if is := gjson.Get(answer, "protocol").Str; is != c.protocol {
			t.Errorf("%s %s goes by %q: %s", c.method, c.path, is, answer)
		}
	}
}
