package openapi

import (
	"encoding/json"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// FuzzOtherServers reads any document of another server: its part is refused, or joined to a document that keeps all paths of this server, and is JSON.
func FuzzOtherServers(f *testing.F) {
	const own = `{"swagger":"2.0","info":{"title":"T","version":"v1"},"paths":{"/apis/g/v1/a":{"get":{"responses":{"200":{"description":"mine"}}}},"/version/":{}},"definitions":{"A":{"type":"object"},"A_v2":{"type":"string"}}}`
	for _, seed := range []string{own, "{}", "null", "[]", `{"paths":{"/apis/g/v1/":null}}`,
		`{"swagger":"2.0","paths":{"/apis/g/v1/b":{"get":{"responses":{"200":{"schema":{"$ref":"#/definitions/A"}}}}}},"definitions":{"A":{"type":"integer","properties":{"x":{"$ref":"#/definitions/A"}}}}}`,
		`{"swagger":"2.0","paths":{"/apis/g/v1/a":{"parameters":[{"$ref":"#/parameters/p"}]}},"parameters":{"p":{"name":"p","in":"query","type":"string"}}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := NewDocument(body, "", time.Time{}); (err == nil) != json.Valid(body) {
			t.Errorf("a document of version 3: %v", err)
		}
		part, err := NewPart(body, schema.GroupVersion{Group: "g", Version: "v1"})
		if err != nil {
			return
		}
		if _, err := part.V3(time.Time{}); err != nil {
			t.Errorf("it has no version 3: %v", err)
		}
		others, err := readParts([]*Part{part})
		if err != nil {
			t.Fatalf("it cannot be read again: %v", err)
		}
		joined, err := join([]byte(own), others)
		if err != nil {
			return
		}
		var was, is swaggerText
		if err := json.Unmarshal(joined, &is); err != nil {
			t.Fatalf("%v: %s", err, joined)
		}
		if err := json.Unmarshal([]byte(own), &was); err != nil {
			t.Fatal(err)
		}
		for path, text := range was.Paths {
			if string(is.Paths[path]) != string(text) {
				t.Errorf("%s has become %s", path, is.Paths[path])
			}
		}
		for name, text := range was.Definitions {
			if string(is.Definitions[name]) != string(text) {
				t.Errorf("%s has become %s", name, is.Definitions[name])
			}
		}
	})
}
