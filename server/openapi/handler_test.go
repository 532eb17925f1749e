package openapi_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	openapiv2 "github.com/google/gnostic-models/openapiv2"
	openapiv3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	corev1 "k8s.io/api/core/v1"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/openapi"
)

var coreScheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(corev1.AddToScheme(s))
	return s
}()

// smallRegistry has one resource, of the core group.
func smallRegistry() *resources.Registry {
	reg := resources.NewRegistry()
	reg.SetGroup(resources.GroupSpec{Versions: []resources.VersionSpec{{Version: "v1", Types: []*resources.Type{{
		GroupResource: schema.GroupResource{Resource: "configmaps"}, Kind: "ConfigMap", Namespaced: true, Scheme: coreScheme,
	}}}}})
	return reg
}

func TestFormsOfV2(t *testing.T) {
	h := openapi.New(smallRegistry(), false)
	plain := get(t, h, "/openapi/v2")
	etag := fmt.Sprintf("%q", fmt.Sprintf("%X", sha512.Sum512(plain.Body.Bytes())))
	for _, c := range []struct{ accept, contentType string }{
		{"", "application/json"},
		{"*/*", "application/json"},
		{"application/json;q=0.5, application/com.github.proto-openapi.spec.v2@v1.0+protobuf", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"},
		{"application/com.github.proto-openapi.spec.v2.v1.0+protobuf", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"},
	} {
		w := get(t, h, "/openapi/v2", "Accept", c.accept)
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != c.contentType || w.Header().Get("ETag") != etag ||
			w.Header().Get("Last-Modified") == "" || strings.Join(w.Header().Values("Vary"), ",") != "Accept-Encoding,Accept" {
			t.Errorf("%q: %d %v", c.accept, w.Code, w.Header())
		}
		if strings.HasSuffix(c.contentType, "protobuf") {
			var doc openapiv2.Document
			if err := proto.Unmarshal(w.Body.Bytes(), &doc); err != nil || doc.Swagger != "2.0" {
				t.Errorf("%q: %v, version %q", c.accept, err, doc.Swagger)
			}
		}
	}
	if w := get(t, h, "/openapi/v2", "Accept", "application/yaml"); w.Code != http.StatusNotAcceptable {
		t.Errorf("YAML: %d", w.Code)
	}
	if w := get(t, h, "/openapi/v2", "If-None-Match", etag); w.Code != http.StatusNotModified || w.Body.Len() > 0 {
		t.Errorf("known ETag: %d", w.Code)
	}
	for _, path := range []string{"/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1", urlOf(t, h, "api/v1")} {
		if w := get(t, h, path, "Range", "bytes=5-2"); w.Code != http.StatusRequestedRangeNotSatisfiable || w.Header().Get("Cache-Control") != "no-cache, private" {
			t.Errorf("%s without the range: %d %v", path, w.Code, w.Header())
		}
	}
	if w := get(t, h, "/openapi/v2", "Range", "bytes=0-9", "Accept-Encoding", "gzip"); w.Code != http.StatusPartialContent ||
		w.Body.String() != plain.Body.String()[:10] {
		t.Errorf("range: %d %q", w.Code, w.Body)
	}
}

func TestCompression(t *testing.T) {
	h := openapi.New(smallRegistry(), false)
	plain := get(t, h, "/openapi/v2").Body.Bytes()
	for accept, want := range map[string]bool{"gzip": true, "br, GZIP;q=0.5": true, "gzip;q=0": false, "br": false, "": false} {
		w := get(t, h, "/openapi/v2", "Accept-Encoding", accept)
		body := w.Body.Bytes()
		if got := w.Header().Get("Content-Encoding") == "gzip"; got != want {
			t.Errorf("%q: compressed is %v", accept, got)
			continue
		}
		if want {
			z, err := gzip.NewReader(w.Body)
			if err != nil {
				t.Fatal(err)
			}
			if body, err = io.ReadAll(z); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(body, plain) {
			t.Errorf("%q: another document", accept)
		}
	}
	// As in kube-apiserver, only version 2 is compressed.
	if w := get(t, h, "/openapi/v3/api/v1", "Accept-Encoding", "gzip"); w.Header().Get("Content-Encoding") != "" {
		t.Error("version 3 is compressed")
	}
}

func urlOf(t *testing.T, h http.Handler, name string) string {
	t.Helper()
	entry := section(getJSON(t, h, "/openapi/v3"), "paths", name)
	if entry == nil {
		t.Fatalf("the index has no %s", name)
	}
	return entry["serverRelativeURL"].(string)
}

func TestHashedURLs(t *testing.T) {
	h := openapi.New(smallRegistry(), false)
	url := urlOf(t, h, "api/v1")
	w := get(t, h, url)
	hash := strings.Trim(w.Header().Get("ETag"), `"`)
	if hash == "" || url != "/openapi/v3/api/v1?hash="+hash {
		t.Errorf("%s, want hash %s", url, hash)
	}
	if w.Header().Get("Cache-Control") != "public, immutable" || w.Header().Get("Expires") == "" || w.Header().Get("Vary") != "Accept" {
		t.Errorf("under its hash: %v", w.Header())
	}
	if w := get(t, h, "/openapi/v3/api/v1"); w.Header().Get("Cache-Control") != "" || w.Header().Get("ETag") != `"`+hash+`"` {
		t.Errorf("without a hash: %v", w.Header())
	}
	if w := get(t, h, "/openapi/v3/api/v1?hash=OLD"); w.Code != http.StatusMovedPermanently || w.Header().Get("Location") != url {
		t.Errorf("under another hash: %d %v", w.Code, w.Header())
	}
	for _, name := range []string{"com.github.proto-openapi.spec.v3@v1.0+protobuf", "com.github.proto-openapi.spec.v3.v1.0+protobuf"} {
		w := get(t, h, url, "Accept", "application/"+name)
		var doc openapiv3.Document
		if err := proto.Unmarshal(w.Body.Bytes(), &doc); err != nil || doc.Openapi != "3.0.0" || w.Header().Get("ETag") != `"`+hash+`"` ||
			w.Header().Get("Content-Type") != "application/com.github.proto-openapi.spec.v3.v1.0+protobuf" {
			t.Errorf("%s: %v, %v", name, err, w.Header())
		}
	}
	for path, want := range map[string]int{"/openapi/v3/apis/nope/v1": 404, "/openapi/v3/": 404, "/openapi/v2/": 404, "/openapi": 404} {
		if w := get(t, h, path); w.Code != want {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	if w := get(t, h, url, "Accept", "application/yaml"); w.Code != http.StatusNotAcceptable {
		t.Errorf("YAML: %d", w.Code)
	}
}

// A client whose index is from the same second still gets the one with a group added in that second.
func TestIndexOfTheSameSecond(t *testing.T) {
	reg := smallRegistry()
	h := openapi.NewAt(reg, func() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) })
	date := get(t, h, "/openapi/v3").Header().Get("Last-Modified")
	reg.SetGroup(resources.GroupSpec{Name: "example.org", Versions: []resources.VersionSpec{{Version: "v1"}}})
	if w := get(t, h, "/openapi/v3", "If-Modified-Since", date); date == "" || w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "apis/example.org/v1") {
		t.Errorf("unchanged since %q: %d", date, w.Code)
	}
}

func TestNewGroupLeavesOthersAlone(t *testing.T) {
	reg := smallRegistry()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	h := openapi.NewAt(reg, func() time.Time { return now })
	before := urlOf(t, h, "api/v1")
	modified := get(t, h, "/openapi/v3/api/v1").Header().Get("Last-Modified")
	v2 := get(t, h, "/openapi/v2").Header().Get("ETag")
	now = now.Add(time.Hour)
	reg.SetGroup(resources.GroupSpec{Name: "example.org", Versions: []resources.VersionSpec{{Version: "v1"}}})
	urlOf(t, h, "apis/example.org/v1")
	urlOf(t, h, "apis/example.org")
	if after := urlOf(t, h, "api/v1"); after != before {
		t.Errorf("%s became %s", before, after)
	}
	if got := get(t, h, "/openapi/v3/api/v1").Header().Get("Last-Modified"); got != modified {
		t.Errorf("built again at %s, was built at %s", got, modified)
	}
	if got := get(t, h, "/openapi/v2").Header().Get("ETag"); got == v2 {
		t.Error("version 2 does not tell of the new group")
	}
	reg.RemoveGroup("example.org")
	if w := get(t, h, "/openapi/v3/apis/example.org/v1"); w.Code != http.StatusNotFound {
		t.Errorf("a group that is gone: %d", w.Code)
	}
}

// All concurrent first requests get the same document.
func TestConcurrentFirstRequests(t *testing.T) {
	h := openapi.New(smallRegistry(), false)
	paths := []string{"/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1", "/openapi/v3/version"}
	bodies := make([]string, 4*len(paths))
	var wg sync.WaitGroup
	for i := range bodies {
		wg.Go(func() {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, paths[i%len(paths)], nil))
			bodies[i] = w.Body.String()
		})
	}
	wg.Wait()
	for i, body := range bodies {
		if body == "" || body != bodies[i%len(paths)] {
			t.Errorf("%s: answer %d differs", paths[i%len(paths)], i)
		}
	}
}
