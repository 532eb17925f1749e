package server_test

import (
	"strings"
	"testing"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/server"
)

// Every fast path has a series with its name.
func TestFallbacksOfFastPathsAreCounted(t *testing.T) {
	body := get(newServer(t, nil).Handler(), "/metrics", "master").Body.String()
	for _, name := range fastpath.Names() {
		if !strings.Contains(body, `rowlock_fast_path_fallbacks_total{path="`+name+`"} `) {
			t.Errorf("%s is missing", name)
		}
	}
}

// OpenAPI documents that are not prepared are counted, here those of an unusual choice of versions.
func TestBuiltDocumentsAreCounted(t *testing.T) {
	t.Cleanup(fastpath.OpenAPI.Turn(true))
	for want, config := range map[string]map[string]string{
		"rowlock_openapi_documents_built_total 0": nil,
		"rowlock_openapi_documents_built_total 1": {"api/ga": "false", "v1": "true"},
	} {
		apis, err := builtin.ParseRuntimeConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		h := newServer(t, func(c *server.Config) {
			c.Registry = resources.NewRegistry()
			c.Registry.SetGroups(builtin.Parts{APIs: apis}.Groups())
		}).Handler()
		for range 2 {
			if w := get(h, "/openapi/v2", "known"); w.Code != 200 {
				t.Fatalf("/openapi/v2: %d", w.Code)
			}
		}
		if w := get(h, "/metrics", "master"); !strings.Contains(w.Body.String(), want+"\n") {
			t.Errorf("no %s", want)
		}
	}
}
