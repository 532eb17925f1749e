package custom

import (
	"encoding/json"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

const boned = `{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","metadata":{"name":"as.x.io",` +
	`"managedFields":[{"manager":"m","fieldsV1":{"f:spec":{"f:versions":{}}}}]},"spec":{"group":"x.io","names":{"plural":"as","kind":"A"},` +
	`"scope":"Namespaced","versions":[{"name":"v1","served":true,"storage":false},` +
	`{"name":"v2","served":true,"storage":true,"schema":{"openAPIV3Schema":{"description":"a \"quoted\" é","type":"object","properties":{` +
	`"spec":{"type":"object","x-kubernetes-validations":[{"rule":"1 < 2"},{"rule":"true"}]}}}},"additionalPrinterColumns":[{"name":"C","type":"string","jsonPath":".spec.c"}]},` +
	`{"name":"v3","served":false,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}}}]},"status":{"acceptedNames":{"plural":"as","kind":"A"},"conditions":null,"storedVersions":["v2"]}}`

// readBones leaves out the schemas of a definition and nothing else.
func TestBones(t *testing.T) {
	b, err := readBones([]byte(boned), &compiled{room: compiledRoom})
	if err != nil {
		t.Fatal(err)
	}
	var whole apiextensionsv1.CustomResourceDefinition
	if err := json.Unmarshal([]byte(boned), &whole); err != nil {
		t.Fatal(err)
	}
	whole.ManagedFields = nil
	for i := range whole.Spec.Versions {
		v := &whole.Spec.Versions[i]
		span, found := b.texts.find(v.Name)
		text := span.of([]byte(boned))
		if !found || (len(text) > 0) != (v.Schema != nil) {
			t.Errorf("%s: a schema of %q, %v", v.Name, text, found)
		}
		if v.Schema == nil {
			continue
		}
		want, _ := json.Marshal(v.Schema.OpenAPIV3Schema)
		var is apiextensionsv1.JSONSchemaProps
		if err := json.Unmarshal(text, &is); err != nil {
			t.Fatal(err)
		}
		if got, _ := json.Marshal(is); string(got) != string(want) {
			t.Errorf("%s: %s\nwant %s", v.Name, got, want)
		}
		if sum := b.sums.of(v.Name); sum.size != len(text) || sum.digest == "" {
			t.Errorf("%s: %+v of %d bytes", v.Name, sum, len(text))
		}
		v.Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{}
	}
	got, _ := json.Marshal(b.CustomResourceDefinition)
	want, _ := json.Marshal(whole)
	if string(got) != string(want) {
		t.Errorf("%s\nwant %s", got, want)
	}
	if b.sums.of("v2").rules != 2 || len(b.sums) != 2 {
		t.Errorf("%+v", b.sums)
	}
	if _, found := b.texts.find("v4"); found {
		t.Error("a schema of a version that there is not")
	}
	for i := range len(boned) {
		if _, err := readBones([]byte(boned[:i]), &compiled{room: compiledRoom}); err == nil {
			t.Errorf("a definition is read of which the end is missing: %s", boned[:i])
		}
	}
	for _, odd := range []string{strings.Replace(boned, `"name":"v2"`, `"name":null`, 1), strings.Replace(boned, `[{"name":"v1"`, `[null,{"name":"v1"`, 1)} {
		if _, err := readBones([]byte(odd), &compiled{room: compiledRoom}); odd == boned || err == nil {
			t.Errorf("a definition is read that no server stores: %s", odd)
		}
	}
}

// The shape of a schema covers everything that pruning and defaulting depend on: the rest may change.
func TestShape(t *testing.T) {
	summed := &compiled{room: compiledRoom}
	const plain = `{"type":"object","properties":{"a":{"type":"string"},"type":{"type":"array","items":{"type":"integer"}}}}`
	for text, same := range map[string]bool{
		plain: true,
		`{"description":"d","type":"object","required":["a"],"properties":{"a":{"type":"string","maxLength":5,"enum":["x"]},"type":{"type":"array","items":{"type":"integer","minimum":1},"x-kubernetes-list-type":"set"}}}`: true,
		`{"type":"object","properties":{"a":{"type":"string"},"type":{"type":"array","items":{"type":"integer"}}},"x-kubernetes-validations":[{"rule":"true"}]}`:                                                             true,
		`{"type":"object","properties":{"a":{"type":"string"},"type":{"type":"array","items":{"type":"integer"}}},"anyOf":[{"properties":{"a":{"type":"string"}}}]}`:                                                         true,
		`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"},"type":{"type":"array","items":{"type":"integer"}}}}`:                                                                                    false,
		`{"type":"object","properties":{"a":{"type":"string","default":"x"},"type":{"type":"array","items":{"type":"integer"}}}}`:                                                                                            false,
		`{"type":"object","properties":{"a":{"type":"string","nullable":true},"type":{"type":"array","items":{"type":"integer"}}}}`:                                                                                          false,
		`{"type":"object","properties":{"a":{"type":"string"},"type":{"type":"array","items":{"type":"string"}}}}`:                                                                                                           false,
		`{"type":"object","properties":{"a":{"type":"string"},"type":{"type":"array","items":{"type":"integer","x-kubernetes-int-or-string":true}}}}`:                                                                        false,
		`{"type":"object","properties":{"a":{"type":"string"},"type":{"type":"array","items":{"type":"integer"}}},"x-kubernetes-preserve-unknown-fields":true}`:                                                              false,
		`{"type":"object","properties":{"a":{"type":"object","additionalProperties":true},"type":{"type":"array","items":{"type":"integer"}}}}`:                                                                              false,
		`{"type":"object","properties":{"a":{"type":"object","additionalProperties":{"type":"string"}},"type":{"type":"array","items":{"type":"integer"}}}}`:                                                                 false,
		`{"type":"object","properties":{"a":{"type":"string"}}}`: false,
	} {
		want, err := summed.sum(plain)
		if err != nil {
			t.Fatal(err)
		}
		got, err := summed.sum(text)
		if err != nil {
			t.Fatal(err)
		}
		if (got.shape == want.shape) != same {
			t.Errorf("the same shape: %v, of %s", !same, text)
		}
		if (got.digest == want.digest) != (text == plain) {
			t.Errorf("the same digest: %s", text)
		}
	}
	if _, err := summed.sum(`{"type":"object"`); err == nil {
		t.Error("half a schema is summed up")
	}
}
