package discovery

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/codec"
)

// Documents above 128 KiB are compressed for clients that accept gzip, as with kube-apiserver.
func TestCompression(t *testing.T) {
	registry := resources.NewRegistry()
	groups := make([]resources.GroupSpec, 1000)
	for i := range groups {
		groups[i] = resources.GroupSpec{Name: fmt.Sprintf("g%d.example.com", i), Versions: []resources.VersionSpec{{Version: "v1"}}}
	}
	for i := range 1000 {
		groups[0].Versions[0].Types = append(groups[0].Versions[0].Types, &resources.Type{Kind: "Widget", SingularName: "widget", Untyped: true,
			GroupResource: schema.GroupResource{Group: groups[0].Name, Resource: fmt.Sprintf("widgets%d", i)}})
	}
	registry.SetGroups(groups)
	plain := codec.NewOffer(false)
	plain.PlainBodies = true
	h, without := New(registry, Options{}), New(registry, Options{Offer: plain})
	const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	for _, c := range []struct {
		path, accept string
		large        bool
	}{
		{"/apis", aggregated, true},
		{"/apis", "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", true},
		{"/apis", "application/json", true},
		{"/apis/g0.example.com/v1", "application/yaml", true},
		{"/api", aggregated, false},
		{"/apis/g0.example.com", "", false},
		{"/apis/g1.example.com/v1", "", false},
	} {
		get := func(h *Handler, encoding, etag string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(http.MethodGet, c.path, nil)
			r.Header.Set("Accept", c.accept)
			r.Header.Set("Accept-Encoding", encoding)
			r.Header.Set("If-None-Match", etag)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		w := get(h, "", "")
		body, etag, vary := w.Body.String(), w.Header().Get("ETag"), w.Header().Values("Vary")
		if w.Code != 200 || w.Header().Get("Content-Encoding") != "" || w.Header().Get("Content-Length") != strconv.Itoa(len(body)) {
			t.Errorf("%s as %s: %d %v", c.path, c.accept, w.Code, w.Header())
		}
		for _, h := range []*Handler{h, without} {
			w := get(h, "deflate, gzip", "")
			encoding, length, varies, from := "", strconv.Itoa(len(body)), vary, io.Reader(w.Body)
			if c.large && h != without {
				encoding, length, varies = "gzip", "", append(slices.Clip(vary), "Accept-Encoding")
				z, err := gzip.NewReader(w.Body)
				if err != nil {
					t.Errorf("%s as %s is not compressed: %v", c.path, c.accept, err)
					continue
				}
				from = z
			}
			got, err := io.ReadAll(from)
			if is := w.Header(); err != nil || string(got) != body || is.Get("Content-Encoding") != encoding || is.Get("Content-Length") != length ||
				is.Get("ETag") != etag || !slices.Equal(is.Values("Vary"), varies) {
				t.Errorf("%s as %s: %v, %d bytes of %d, %v", c.path, c.accept, err, len(got), len(body), is)
			}
		}
		if w := get(h, "gzip", etag); strings.Contains(c.accept, "as=") && (w.Code != 304 || w.Body.Len() > 0 || w.Header().Get("Content-Encoding") != "") {
			t.Errorf("%s as %s with its ETag: %d %v", c.path, c.accept, w.Code, w.Header())
		}
	}
}
