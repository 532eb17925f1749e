package discovery

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/resources/untyped/untypedtest"
	"github.com/rowlock/rowlock/server/codec"
)

// If CBOR is served, the resource lists of custom resources still do not support it, as in kube-apiserver's server for these.
func TestVersionsOfDefinitionsInCBOR(t *testing.T) {
	registry := resources.NewRegistry()
	registry.SetGroups(builtin.Groups())
	if err := untypedtest.Serve(registry, untypedtest.Versions()...); err != nil {
		t.Fatal(err)
	}
	h := New(registry, Options{Offer: codec.NewOffer(true)})
	const cbor = "application/cbor"
	for _, c := range []struct {
		path, accept string
		code         int
		contentType  string
	}{
		{"/apis", cbor, 200, cbor},
		{"/apis/apps/v1", cbor, 200, cbor},
		{"/apis/toys.example.org", cbor, 200, cbor},
		{"/apis/toys.example.org/v1", cbor, 406, "application/json"},
		{"/apis/toys.example.org/v1", cbor + ", application/json", 200, "application/json"},
	} {
		r := httptest.NewRequest("GET", c.path, nil)
		r.Header.Set("Accept", c.accept)
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != c.code || w.Header().Get("Content-Type") != c.contentType {
			t.Errorf("%s as %s: %d %s", c.path, c.accept, w.Code, w.Header().Get("Content-Type"))
		}
		if c.code == 406 && !strings.Contains(w.Body.String(), `accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf"`) {
			t.Errorf("%s: %s", c.path, w.Body)
		}
	}
}
