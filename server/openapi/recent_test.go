package openapi_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/untyped/untypedtest"
)

// A document is made once, and is the same however it is kept: uncompressed while it is recent, compressed after others or when the server is idle,
// and under a later catalog.
func TestRecentDocuments(t *testing.T) {
	const size, most = 300 << 10, 4 << 20
	registry, h := toyHandler(t)
	made := map[string]int{}
	serve := func(group string) {
		toy, err := untypedtest.Versions()[0].Type()
		if err != nil {
			t.Fatal(err)
		}
		toy.Group, toy.StorageVersion.Group = group, group
		toy.OpenAPI.Schema = func(bool) (*spec.Schema, error) {
			made[group]++
			return new(spec.Schema).Typed("object", "").WithDescription(group + strings.Repeat("x", size)), nil
		}
		registry.Edit(func(e *resources.Edit) { e.SetType(toy.StorageVersion, 1000, 100, toy) })
	}
	group := func(i int) string { return fmt.Sprintf("g%d.example.org", i) }
	path := func(i int) string { return "/openapi/v3/apis/" + group(i) + "/v1" }
	const n = most/size + 5
	var first [n]string
	for i := range n {
		serve(group(i)) // each has its own catalog
		first[i] = get(t, h, path(i)).Body.String()
		if !strings.Contains(first[i], group(i)+strings.Repeat("x", size)) {
			t.Fatalf("%s: %.200s", path(i), first[i])
		}
		if i == 0 && h.Plain() < size {
			t.Errorf("%d bytes are kept as they were made; the document has %d", h.Plain(), size)
		}
	}
	if h.Plain() > most || h.Plain() < most/2 {
		t.Errorf("%d bytes are kept as they were made; they may be %d", h.Plain(), most)
	}
	same := func(when string) {
		for i := range n {
			w := get(t, h, path(i))
			if w.Body.String() != first[i] || w.Header().Get("ETag") == "" || made[group(i)] != 1 {
				t.Errorf("%s: %s was made %d times; %.200s", when, path(i), made[group(i)], w.Body)
			}
		}
	}
	same("when others were made")
	h.Rest()
	if h.Plain() != 0 {
		t.Errorf("%d bytes are kept as they were made at rest", h.Plain())
	}
	same("at rest")
}
