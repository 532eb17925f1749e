package server_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/rowlock/rowlock/server"
)

// FuzzHeaders sends any headers that fixed paths, discovery, OpenAPI documents, status pages and the API read, with a known credential and with any
// other: the server answers, without a panic and without an error of its own.
func FuzzHeaders(f *testing.F) {
	for _, seed := range [][4]string{
		{"", "", "", ""}, {"*/*", "gzip", "Bearer x", "*"}, {"application/*;q=x", "gzip;q=0", "Basic Og==", `"a", W/"b"`},
		{"application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io", "gzip;q=0.1,br", "bearer", `"`},
		{"application/com.github.proto-openapi.spec.v3.v1.0+protobuf", "identity, GZIP ; q=1", "Bearer a b", ""},
		{"application/json;as=Flagz;v=v1beta1;g=config.k8s.io", "*;q=0", "Negotiate", "\x00"}, {"text/plain,,;", ";,", " ", ","},
		{"application/vnd.kubernetes.protobuf;stream=watch, application/yaml;q=0.5", "gzip;q=NaN", "Basic", `W/`}, {`a/b; q="`, "gzip;q=", "Digest a=b", "-"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	s, _ := audited(f, everything, func(c *server.Config) {
		c.Features, c.Flags = utilfeature.DefaultFeatureGate, map[string]string{"a": "b"}
	})
	h := s.Handler()
	f.Fuzz(func(t *testing.T, accept, encoding, authorization, match string) {
		for _, credential := range []string{authorization, "master"} {
			for _, path := range []string{"/version", "/api", "/apis", "/apis/apps/v1", "/openapi/v3", "/flagz", "/statusz", "/api/v1/namespaces", "/readyz"} {
				r := httptest.NewRequest("GET", path, nil)
				for name, value := range map[string]string{"Accept": accept, "Accept-Encoding": encoding, "Authorization": credential, "If-None-Match": match} {
					r.Header.Set(name, value)
				}
				w := httptest.NewRecorder()
				if h.ServeHTTP(w, r); w.Code >= 500 || strings.Contains(w.Body.String(), "apiserver panic'd") {
					t.Errorf("%s with %q: %d %s", path, r.Header, w.Code, w.Body)
				}
			}
		}
	})
}
