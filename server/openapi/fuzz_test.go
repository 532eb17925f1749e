package openapi

import (
	"bytes"
	"maps"
	"net/http/httptest"
	"slices"
	"testing"

	"k8s.io/kubernetes/pkg/generated/openapi"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// FuzzPrepared checks that a prepared document equals the one that would be built, whatever versions are served.
func FuzzPrepared(f *testing.F) {
	versions := []string{"apps/v1", "batch/v1", "policy/v1", "scheduling.k8s.io/v1", "storage.k8s.io/v1", "resource.k8s.io/v1beta1", "coordination.k8s.io/v1",
		"autoscaling/v1", "apps/v1/deployments", "batch/v1/cronjobs"}
	f.Add(uint16(0), uint16(7), false)
	f.Add(uint16(1<<8|1<<5), uint16(3), false)
	f.Add(uint16(1<<9), uint16(5), true)
	f.Fuzz(func(t *testing.T, choice, which uint16, cbor bool) {
		config := map[string]string{}
		for i, version := range versions {
			if choice>>i&1 != 0 {
				config[version] = "false"
				if version == "resource.k8s.io/v1beta1" {
					config[version] = "true"
				}
			}
		}
		registry := registryOf(t, config)
		names := slices.Sorted(maps.Keys(New(registry, cbor).stateOf(registry.Catalog()).v3))
		path := pathV3 + "/" + names[int(which)%len(names)]
		answer := func(on bool, h *Handler) *httptest.ResponseRecorder {
			defer fastpath.OpenAPI.Turn(on)()
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
			return w
		}
		upstream := New(registry, cbor)
		upstream.definitions = Upstreams(openapi.GetOpenAPIDefinitions)
		fast, plain := answer(true, New(registry, cbor)), answer(false, upstream)
		if upstream.Built() != 1 {
			t.Errorf("%d documents were built", upstream.Built())
		}
		if fast.Code != 200 || plain.Code != 200 || !bytes.Equal(fast.Body.Bytes(), plain.Body.Bytes()) || fast.Header().Get("ETag") != plain.Header().Get("ETag") {
			t.Errorf("%v: %s: %d and %d, %d and %d bytes", config, path, fast.Code, plain.Code, fast.Body.Len(), plain.Body.Len())
		}
	})
}
