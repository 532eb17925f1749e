package expressions

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/e2e/harness"
)

// Of the part of a published schema that its rules depend on the same closures are made as of the whole, and it is short.
func TestPartsOfPublishedDefinitions(t *testing.T) {
	all, err := harness.Published(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	longest, part := 0, 0
	for _, crd := range all {
		for _, v := range crd.Spec.Versions {
			text, err := json.Marshal(v.Schema.OpenAPIV3Schema)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), Field) {
				continue
			}
			short, ok := Part(text)
			if !ok {
				t.Errorf("%s cannot be read", crd.Name)
				continue
			}
			ours, want := Compile(structuralOf(t, string(short))), Compile(structuralOf(t, string(text)))
			if (ours == nil) != (want == nil) || want != nil && (ours.Covered != want.Covered || ours.RestCount != want.RestCount) {
				t.Errorf("%s: %+v, of the whole %+v", crd.Name, ours, want)
			}
			if len(text) > longest {
				longest, part = len(text), len(short)
			}
		}
	}
	if longest < 300_000 || part > longest/100 {
		t.Errorf("of the longest, %d bytes, %d are left", longest, part)
	}
}
