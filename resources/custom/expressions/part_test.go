package expressions

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/e2e/harness"
)

// The part of a published schema that its rules depend on compiles to the same closures as the whole, and is short.
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
			ofPart(t, string(text), structuralOf(t, string(text)))
			short, _ := Part(text)
			if len(text) > longest {
				longest, part = len(text), len(short)
			}
		}
	}
	if longest < 300_000 || part > longest/100 {
		t.Errorf("of the longest, %d bytes, %d are left", longest, part)
	}
}

// The fields that a part leaves out make no difference to CEL.
func TestPartsAreTheSameToRules(t *testing.T) {
	metadata := func(name string) string {
		return `{"properties":{"apiVersion":{"type":"string"},"kind":{"type":"string"},"metadata":{"properties":{"generateName":{"type":"string"},"name":` + name + `},"type":"object"}},` +
			`"type":"object","x-kubernetes-validations":[{"rule":"self.metadata.name.size() > 6"}]}`
	}
	ruled := func(field, rule string) string {
		return `{"properties":{"spec":{"properties":{"a":` + field + `,"b":{"type":"string"}},"type":"object","x-kubernetes-validations":[{"rule":"` + rule + `"}]}},"type":"object"}`
	}
	list := `{"items":{"properties":{"x":{"type":"string"},"y":{"type":"string"}},"type":"object"},"type":"array"}`
	values := `{"additionalProperties":{"properties":{"x":{"type":"string"}},"type":"object"},"type":"object"}`
	for text, object := range map[string]string{
		metadata(`{"type":"string"}`):                                          `{"metadata":{"name":"abcdefgh"}}`,
		metadata(`{"format":"byte","type":"string"}`):                          `{"metadata":{"name":"abcdefgh"}}`,
		ruled(list, `self.a.exists(i, true)`):                                  `{"spec":{"a":[{"x":"y"}]}}`,
		ruled(list, `self.a.all(i, has(i.x))`):                                 `{"spec":{"a":[{"x":"y"}]}}`,
		ruled(values, `'k' in self.a`):                                         `{"spec":{"a":{"k":{}}}}`,
		ruled(values, `has(self.a) && self.a.all(k, self.a[k].x == 'y')`):      `{"spec":{"a":{"k":{"x":"y"}}}}`,
		ruled(`{"format":"byte","type":"string"}`, `self.a == b'x'`):           `{"spec":{"a":"eA=="}}`,
		ruled(`{"type":"string"}`, `self.a == 'x' || self.b.split('y') == []`): `{"spec":{"a":"x"}}`,
	} {
		whole := Compile(structuralOf(t, text))
		part := ofPart(t, text, structuralOf(t, text))
		if whole == nil || part == nil {
			continue
		}
		var o map[string]any
		if err := json.Unmarshal([]byte(object), &o); err != nil {
			t.Fatal(err)
		}
		cost, holds := whole.Hold(t.Context(), o, nil)
		if c, h := part.Hold(t.Context(), o, nil); c != cost || h != holds {
			t.Errorf("%s of %s: %d, %t; of the whole %d, %t", object, text, c, h, cost, holds)
		}
	}
}
