package aggregate_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

func (e *extension) describe(w http.ResponseWriter, r *http.Request) {
	doc, ok := e.documents.Load(r.URL.Path)
	if !ok {
		http.NotFound(w, r)
		return
	}
	if r.Header.Get("X-Remote-User") != "system:aggregator" {
		http.Error(w, "who is that?", http.StatusForbidden)
		return
	}
	etag := `"` + hashOf(doc.(string)) + `"`
	w.Header().Set("Etag", etag)
	if r.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, doc.(string)) // an error means that the client has left
}

// describeV3 sets a word in the extension's description of apples.
func (e *extension) describeV3(word string) {
	doc := fmt.Sprintf(`{"openapi":"3.0.0","info":{"title":"apples","version":"1"},"paths":{"%s/apples":{"get":{"description":"%s","responses":{"200":{"description":"OK"}}}}}}`, apples, word)
	e.documents.Store("/openapi/v3"+apples, doc)
	e.documents.Store("/openapi/v3", fmt.Sprintf(`{"paths":{"apis/apples.example.com/v1":{"serverRelativeURL":"/openapi/v3%s?hash=%s"},"version":{"serverRelativeURL":"/nowhere"}}}`, apples, hashOf(doc)))
}

func hashOf(doc string) string { return fmt.Sprintf("%X", sha256.Sum256([]byte(doc))) }

// describeV2 does the same in version 2, with a definition whose name this server uses for another one.
func (e *extension) describeV2(word string) {
	e.documents.Store("/openapi/v2", fmt.Sprintf(`{"swagger":"2.0","info":{"title":"apples","version":"1"},
		"paths":{"%[1]s/apples":{"get":{"description":"%[2]s","responses":{"200":{"description":"OK","schema":{"$ref":"#/definitions/Apple"}}}}},
			"/version/":{"get":{"responses":{"200":{"description":"OK"}}}}},
		"definitions":{"Apple":{"description":"%[2]s","type":"object","properties":{"spec":{"$ref":"#/definitions/io.k8s.api.core.v1.Pod"}}},
			"io.k8s.api.core.v1.Pod":{"description":"of fruit","type":"object"}}}`, apples, word))
}

// openapi waits until a value in an OpenAPI document satisfies a condition.
func (f *fixture) openapi(what, document, path string, ok func(gjson.Result) bool) {
	f.Helper()
	deadline := time.After(patience)
	for {
		code, answer := f.send("GET", document, "")
		var found gjson.Result
		if code < 300 {
			found = gjson.Get(answer, path)
		}
		if ok(found) {
			return
		}
		select {
		case <-deadline:
			f.Fatalf("never %s: %d %s", what, code, found)
		case <-time.After(5 * time.Millisecond): // no event reports it
		}
	}
}

// touch makes the server poll the extension again.
func (f *fixture) touch(label string) {
	f.Helper()
	f.must("PATCH", apiServices+"/v1.apples.example.com", fmt.Sprintf(`{"metadata":{"labels":{"touched":%q}}}`, label), "Content-Type", "application/merge-patch+json")
}

const (
	ownDocument = `paths.apis/apples\.example\.com/v1.serverRelativeURL`
	described   = `paths./apis/apples\.example\.com/v1/apples.get.description`
)

func says(word string) func(gjson.Result) bool {
	return func(v gjson.Result) bool { return v.Str == word }
}

// Documents of version 3 are those of the other server, under its hashes. The last ones are served while it is down, and removed
// with the APIService.
func TestDescribeV3(t *testing.T) {
	f := newFixture(t)
	f.ext.documents.Store("/openapi/v2", "no document") // it has no effect on version 3
	f.ext.describeV3("sweet")
	f.register()
	f.condition("Passed")
	var at string
	f.openapi("there", "/openapi/v3", ownDocument, func(v gjson.Result) bool {
		at = v.Str
		return v.Exists()
	})
	index, _ := f.ext.documents.Load("/openapi/v3")
	if want := gjson.Get(index.(string), ownDocument).Str; at != want {
		t.Errorf("found at %s, want %s", at, want)
	}
	if got := gjson.Get(f.must("GET", "/openapi/v3", ""), "paths.version.serverRelativeURL").Str; !strings.HasPrefix(got, "/openapi/v3/version?hash=") {
		t.Errorf("another server says what the version of this one is: %q", got)
	}
	code, header, body := f.get(at)
	if code != http.StatusOK || gjson.Get(body, described).Str != "sweet" || header.Get("Cache-Control") != "public, immutable" || header.Get("Content-Type") != "application/json" {
		t.Errorf("%d %v %s", code, header, body)
	}
	if code, header, _ := f.get(at, "Accept", "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"); code != http.StatusOK ||
		header.Get("Content-Type") != "application/com.github.proto-openapi.spec.v3.v1.0+protobuf" {
		t.Errorf("as protobuf: %d %v", code, header)
	}
	f.ext.describeV3("sour")
	f.touch("once")
	f.openapi("new", "/openapi/v3"+apples, described, says("sour"))
	if code, header, _ := f.get(at); code != http.StatusMovedPermanently || header.Get("Location") == at {
		t.Errorf("under the hash before: %d %v", code, header)
	}
	f.must("DELETE", "/api/v1/namespaces/default/services/ext", "")
	f.condition("ServiceNotFound")
	f.openapi("still there", "/openapi/v3"+apples, described, says("sour"))
	f.must("DELETE", apiServices+"/v1.apples.example.com", "")
	f.openapi("gone", "/openapi/v3", ownDocument, func(v gjson.Result) bool { return !v.Exists() })
	if code, _, _ := f.get("/openapi/v3" + apples); code != http.StatusNotFound {
		t.Errorf("after the APIService: %d", code)
	}
}

// The document of version 2 contains other servers' descriptions of their versions; definitions whose names have another meaning here
// are renamed. For a server without version 3, it is converted from version 2.
func TestDescribeV2(t *testing.T) {
	f := newFixture(t)
	before := f.must("GET", "/openapi/v2", "")
	f.ext.describeV2("sweet")
	f.register()
	f.openapi("there", "/openapi/v2", described, says("sweet"))
	now := gjson.Parse(f.must("GET", "/openapi/v2", ""))
	for path, want := range map[string]string{
		"definitions.Apple.properties.spec.$ref":                        "#/definitions/io.k8s.api.core.v1.Pod_v2",
		`definitions.io\.k8s\.api\.core\.v1\.Pod_v2.description`:        "of fruit",
		`definitions.io\.k8s\.api\.core\.v1\.Pod.description`:           gjson.Get(before, `definitions.io\.k8s\.api\.core\.v1\.Pod.description`).Str,
		`paths./version/.get.operationId`:                               gjson.Get(before, `paths./version/.get.operationId`).Str,
		`paths./api/v1/namespaces/{namespace}/pods.get.parameters.0.in`: gjson.Get(before, `paths./api/v1/namespaces/{namespace}/pods.get.parameters.0.in`).Str,
	} {
		if got := now.Get(path).Str; got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	f.openapi("there", "/openapi/v3"+apples, described, says("sweet"))
	f.ext.describeV2("sour")
	f.touch("once")
	f.openapi("new", "/openapi/v2", described, says("sour"))
	f.ext.down.Store(true)
	f.touch("twice")
	f.discovered("stale", `items.#(metadata.name=="apples.example.com").versions.0`, func(v gjson.Result) bool { return v.Get("freshness").Str == "Stale" })
	f.openapi("still there", "/openapi/v2", described, says("sour"))
	f.must("DELETE", apiServices+"/v1.apples.example.com", "")
	f.openapi("gone", "/openapi/v2", described, func(v gjson.Result) bool { return !v.Exists() })
	if after := f.must("GET", "/openapi/v2", ""); after != before {
		t.Error("the document is not what it was before")
	}
}

// When two definitions have the same name, the one of the APIService whose name comes first keeps it, whatever the
// priorities of their versions.
func TestDefinitionsOfTwoVersions(t *testing.T) {
	f := newFixture(t)
	f.ext.describeV2("sweet")
	f.register()
	f.openapi("there", "/openapi/v2", described, says("sweet"))
	f.ext.documents.Store("/openapi/v2", `{"swagger":"2.0","info":{"title":"apples","version":"2"},
		"paths":{"/apis/apples.example.com/v2/apples":{"get":{"responses":{"200":{"description":"OK","schema":{"$ref":"#/definitions/Apple"}}}}}},
		"definitions":{"Apple":{"description":"sour","type":"object"}}}`)
	spec := gjson.Get(f.must("GET", apiServices+"/v1.apples.example.com", ""), "spec").Raw
	spec = strings.NewReplacer(`"version":"v1"`, `"version":"v2"`, `"versionPriority":10`, `"versionPriority":20`).Replace(spec)
	f.must("POST", apiServices, `{"metadata":{"name":"v2.apples.example.com"},"spec":`+spec+`}`)
	f.openapi("there", "/openapi/v2", "definitions.Apple_v2.description", says("sour"))
	f.openapi("first", "/openapi/v2", "definitions.Apple.description", says("sweet"))
}

// get is send with the headers of the answer, without following redirects.
func (f *fixture) get(path string, headers ...string) (int, http.Header, string) {
	f.Helper()
	r, err := http.NewRequestWithContext(f.Context(), "GET", "http://"+f.address+path, nil)
	if err != nil {
		f.Fatal(err)
	}
	r.Header.Set("Authorization", "known")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		f.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		f.Fatal(err)
	}
	return answer.StatusCode, answer.Header, string(data)
}
