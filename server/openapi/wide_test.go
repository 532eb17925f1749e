package openapi_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"fmt"
	"io"
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/resources/untyped/untypedtest"
	"github.com/rowlock/rowlock/server/openapi"
)

const protobufV2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

// A document written type by type equals the one built as a whole, in both encodings. A document dropped when idle is made again, except for
// clients that already have it.
func TestWideDocument(t *testing.T) {
	t.Cleanup(fastpath.OpenAPI.Turn(true))
	for _, joined := range []bool{false, true} {
		t.Run(fmt.Sprint("joined ", joined), func(t *testing.T) { testWideDocument(t, joined) })
	}
}

// external describes the first of n types, each in its own group, as another server would.
func external(t *testing.T) *openapi.External {
	t.Helper()
	registry := resources.NewRegistry()
	registry.SetGroups(builtin.Groups())
	counted(t, registry, 1)
	gv := schema.GroupVersion{Group: "g0.example.org", Version: "v1"}
	part, err := openapi.NewPart(get(t, openapi.New(registry, false), "/openapi/v2").Body.Bytes(), gv)
	if err != nil {
		t.Fatal(err)
	}
	return &openapi.External{Versions: []openapi.ExternalVersion{{GroupVersion: gv, V2: part}}}
}

func testWideDocument(t *testing.T, joined bool) {
	registry := resources.NewRegistry()
	registry.SetGroups(builtin.Groups())
	if err := untypedtest.Serve(registry, untypedtest.Versions()...); err != nil {
		t.Fatal(err)
	}
	asked := map[string]int{}
	registry.Edit(func(e *resources.Edit) {
		for i := range 3 {
			setCounted(t, e, fmt.Sprintf("h%d.example.org", i), asked)
		}
	})
	fast, plain := openapi.New(registry, false), openapi.New(registry, false)
	if joined {
		others := external(t)
		for _, h := range []*openapi.Handler{fast, plain} {
			h.Join(func() *openapi.External { return others })
		}
	}
	fallbacks := fastpath.OpenAPI.Fallbacks()
	etag := ""
	for _, accept := range []string{"application/json", protobufV2} {
		got := get(t, fast, "/openapi/v2", "Accept", accept)
		back := fastpath.OpenAPI.Turn(false)
		want := get(t, plain, "/openapi/v2", "Accept", accept)
		back()
		if got.Code != http.StatusOK || !bytes.Equal(got.Body.Bytes(), want.Body.Bytes()) {
			t.Errorf("%s: %d, of %d bytes, is not the document of %d bytes that is built whole", accept, got.Code, got.Body.Len(), want.Body.Len())
		}
		if etag == "" {
			etag = fmt.Sprintf("%q", fmt.Sprintf("%X", sha512.Sum512(want.Body.Bytes())))
		}
		if got.Header().Get("ETag") != etag || want.Header().Get("ETag") != etag {
			t.Errorf("%s: the ETag is %s, want %s", accept, got.Header().Get("ETag"), etag)
		}
		part := get(t, fast, "/openapi/v2", "Accept", accept, "Range", "bytes=1000000-1000009", "Accept-Encoding", "identity")
		if part.Code != http.StatusPartialContent || part.Body.String() != want.Body.String()[1000000:1000010] {
			t.Errorf("%s: a range is answered by %d %q", accept, part.Code, part.Body)
		}
		if zipped := get(t, fast, "/openapi/v2", "Accept", accept, "Accept-Encoding", "gzip"); !bytes.Equal(unzipped(t, zipped.Body), want.Body.Bytes()) {
			t.Errorf("%s: compressed, it is another document", accept)
		}
	}
	if n := fastpath.OpenAPI.Fallbacks() - fallbacks; n > 0 {
		t.Errorf("%d documents were built whole", n)
	}
	built, before := fast.Built(), get(t, fast, "/openapi/v2")
	if !fast.Rest() || fast.Rest() {
		t.Error("the document is not dropped once")
	}
	if w := get(t, fast, "/openapi/v2", "If-None-Match", etag); w.Code != http.StatusNotModified || w.Header().Get("ETag") != etag || fast.Built() != built {
		t.Errorf("who has it is answered by %d, and %d documents were built", w.Code, fast.Built()-built)
	}
	again := get(t, fast, "/openapi/v2")
	if !bytes.Equal(again.Body.Bytes(), before.Body.Bytes()) || fast.Built() != built+1 || again.Header().Get("Last-Modified") != before.Header().Get("Last-Modified") {
		t.Errorf("after it was dropped it is answered by %d %v", again.Code, again.Header())
	}
}

func unzipped(t *testing.T, r io.Reader) []byte {
	t.Helper()
	z, err := gzip.NewReader(r)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
