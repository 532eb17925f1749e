package server_test

import (
	"net/http/httptest"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/rowlock/rowlock/server"
)

type openID struct{}

func (openID) GetConfigJSON() ([]byte, int) { return []byte(`{"issuer":"https://issuer"}`), 60 }
func (openID) GetKeysetJSON() ([]byte, int) { return []byte(`{"keys":[]}`), 60 }

// The documents at fixed paths are served for GET and in their one media type only; without an issuer, its documents do not exist.
func TestFixedDocuments(t *testing.T) {
	without := newServer(t, nil).Handler()
	with := newServer(t, func(c *server.Config) { c.OpenID = openID{} }).Handler()
	for _, tc := range []struct {
		path, mediaType, cache string
		optional               bool // and takes any Content-Type
	}{
		{"/version", "application/json", "no-cache, private", false},
		{"/version/", "application/json", "no-cache, private", false},
		{"/.well-known/openid-configuration", "application/json", "public, max-age=60", true},
		{"/.well-known/openid-configuration/", "application/json", "public, max-age=60", true},
		{"/openid/v1/jwks", "application/jwk-set+json", "public, max-age=60", true},
		{"/openid/v1/jwks//", "application/jwk-set+json", "public, max-age=60", true},
	} {
		ask := func(method, accept string, contentType ...string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(method, tc.path, nil)
			r.Header.Set("Authorization", "known")
			r.Header.Set("Accept", accept)
			r.Header["Content-Type"] = contentType
			w := httptest.NewRecorder()
			with.ServeHTTP(w, r)
			return w
		}
		for _, accept := range []string{"", "*/*", "text/html, " + tc.mediaType + ";q=0.5"} {
			w := ask("GET", accept)
			if h := w.Header(); w.Code != 200 || h.Get("Content-Type") != tc.mediaType || h.Get("Cache-Control") != tc.cache {
				t.Errorf("%s for %q: %d, %v", tc.path, accept, w.Code, h)
			}
		}
		w := ask("GET", "application/yaml")
		if w.Code != 406 || w.Header().Get("Content-Type") != "application/yaml" {
			t.Errorf("%s in YAML: %d, %s", tc.path, w.Code, w.Body)
		}
		for contentType, taken := range map[string]bool{"application/json; charset=utf-8": true, "text/html, application/json": true,
			"application/yaml": tc.optional, "*/*": tc.optional, "text/html": tc.optional} {
			w := ask("GET", "", contentType)
			if refused := w.Code == 415 && gjson.Get(w.Body.String(), "message").Str == "415: Unsupported Media Type"; refused == taken || !refused && w.Code != 200 {
				t.Errorf("%s with %s: %d, %s", tc.path, contentType, w.Code, w.Body)
			}
		}
		if w := ask("GET", "text/html", "text/html"); w.Code != 415 && !tc.optional {
			t.Errorf("%s with and as HTML: %d, %s", tc.path, w.Code, w.Body)
		}
		for _, method := range []string{"HEAD", "OPTIONS", "POST"} {
			if w := ask(method, "", "text/html"); w.Code != 405 || gjson.Get(w.Body.String(), "reason").Str != "MethodNotAllowed" {
				t.Errorf("%s %s: %d, %s", method, tc.path, w.Code, w.Body)
			}
		}
		if code := get(without, tc.path, "known").Code; tc.optional != (code == 404) {
			t.Errorf("%s without an issuer: %d", tc.path, code)
		}
	}
	if w := get(with, "/openid/v1/jwks/x", "known"); w.Code != 404 || gjson.Get(w.Body.String(), "reason").Str != "NotFound" {
		t.Errorf("below the keys: %d, %s", w.Code, w.Body)
	}
}

// A path is served by its meaning, however it is escaped.
func TestEscapedPaths(t *testing.T) {
	h := newServer(t, nil).Handler()
	for path, want := range map[string]int{"/%61pi": 200, "/ap%69/v1": 200, "/apis%2Fapps": 200, "/apis%2Fapps%2Fv1": 200, "/%68ealthz": 200, "/healthz%2Fping": 200, "/%76ersion": 200,
		"/version%2F": 200, "/%69ndex.html": 200, "/openapi%2Fv2": 200, "/%6eosuch": 404, "/%2Fapi": 404, "/healthz%2Fnosuch": 404} {
		if w := get(h, path, "master"); w.Code != want {
			t.Errorf("%s: %d %.200s", path, w.Code, w.Body)
		}
	}
	for method, want := range map[string]int{"OPTIONS": 405, "PROPFIND": 405} {
		r := httptest.NewRequest(method, "/%76ersion", nil)
		r.Header.Set("Authorization", "master")
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%s: %d %s", method, w.Code, w.Body)
		}
	}
}
