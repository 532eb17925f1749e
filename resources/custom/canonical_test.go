package custom

import (
	"encoding/json"
	"math/rand"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	crdfuzzer "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/fuzzer"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	kjson "sigs.k8s.io/json"

	"github.com/rowlock/rowlock/resources/typedjson"
)

// oddSchemas are schemas with parts that have several spellings.
var oddSchemas = []string{
	`{}`, `{"type":""}`, `{"type":"object","properties":{}}`, `{"properties":{"b":{},"a":{"type":"string"}},"type":"object"}`, ` { "type" : "object" } `,
	`{"type":"object","type":"object"}`, `{"properties":{"a":{},"a":{}}}`, `{"type":null}`, `{"properties":{"a":null}}`, `{"nosuch":1}`, `{"Type":"object"}`,
	`{"description":"<b> & \"c\" \n \u003c \/ é \u00e9 \u2028 \ud83d\ude00"}`, `{"description":"\ud800"}`, "{\"description\":\"\xff\"}", `{"properties":{"<a>":{},"é":{},"A":{}}}`,
	`{"maximum":1.0,"minimum":-0,"multipleOf":0.1}`, `{"maximum":1e3}`, `{"maximum":12345678901234567890}`, `{"maxLength":5.0}`, `{"maxLength":007}`, `{"maxLength":-1}`,
	`{"minimum":0,"exclusiveMinimum":false,"exclusiveMaximum":true,"nullable":false}`, `{"minimum":0.0000001}`, `{"minimum":-0.5}`,
	`{"default":{"b":1,"a":[true,{},[]]}}`, `{"default":null}`, `{"default":{"a":null}}`, `{"default":"<"}`, `{"default":"a\nb"}`, `{"default":1.0}`, `{"default":-0}`, `{"default":1e2}`,
	`{"default":{"a":1,"a":2}}`, `{"default":[1, 2]}`, `{"default":false,"example":{"z":1,"y":2}}`, `{"enum":["b","a",1,null]}`, `{"enum":["b","a",1,true]}`, `{"enum":[]}`, `{"required":[]}`, `{"required":["b","a"]}`,
	`{"items":{"type":"string"}}`, `{"items":[{"type":"string"}]}`, `{"items":{}}`, `{"items":[]}`, `{"items":true}`, `{"additionalProperties":true}`, `{"additionalProperties":false}`,
	`{"additionalProperties":{"type":"string"}}`, `{"additionalProperties":{}}`, `{"allOf":[],"anyOf":[{"required":["a"]}],"oneOf":[{}],"not":{}}`, `{"not":null}`,
	`{"x-kubernetes-preserve-unknown-fields":false}`, `{"x-kubernetes-preserve-unknown-fields":true,"x-kubernetes-embedded-resource":false,"x-kubernetes-int-or-string":true}`,
	`{"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["b","a"],"x-kubernetes-map-type":""}`, `{"x-kubernetes-list-map-keys":[]}`,
	`{"x-kubernetes-validations":[{"message":"m","rule":"a < b"}]}`, `{"x-kubernetes-validations":[{"rule":"","reason":"FieldValueInvalid","fieldPath":".a","optionalOldSelf":false,"messageExpression":"'<'"}]}`,
	`{"x-kubernetes-validations":[{"message":"m"}]}`, `{"x-kubernetes-validations":[]}`, `{"x-kubernetes-validations":[{"rule":"a","nosuch":1}]}`,
	`{"$ref":"","id":"","$schema":"x"}`, `{"$ref":"#/a"}`, `{"definitions":{"a":{}}}`, `{"dependencies":{"a":["b"]}}`, `{"patternProperties":{"a":{}}}`, `{"additionalItems":false}`,
	`{"externalDocs":{"url":"a"}}`, `{"format":"date","title":"t","pattern":"^a$","uniqueItems":true,"maxItems":1,"minItems":0,"maxProperties":2,"minProperties":0,"minLength":0}`, `[]`, `{`, `{} {}`, `1`,
}

// FuzzCanonicalSchema: the canonical text of a schema is the text that is stored when the schema goes through its Go
// types.
func FuzzCanonicalSchema(f *testing.F) {
	for _, text := range oddSchemas {
		f.Add(text)
	}
	scheme := runtime.NewScheme()
	filled := fuzzer.FuzzerFor(crdfuzzer.Funcs, rand.NewSource(1), serializer.NewCodecFactory(scheme))
	for range 50 {
		props, versioned := apiextensions.JSONSchemaProps{}, apiextensionsv1.JSONSchemaProps{}
		filled.Fill(&props)
		if err := apiextensionsv1.Convert_apiextensions_JSONSchemaProps_To_v1_JSONSchemaProps(&props, &versioned, nil); err != nil {
			f.Fatal(err)
		}
		if text, err := json.Marshal(versioned); err == nil {
			f.Add(string(text))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := canonicalSchema(nil, []byte(text))
		if !ok {
			return
		}
		var sent apiextensionsv1.JSONSchemaProps
		if strict, err := kjson.UnmarshalStrict([]byte(text), &sent); err != nil || len(strict) > 0 {
			t.Fatalf("%s is taken: %v, %v", text, strict, err)
		}
		props, stored := apiextensions.JSONSchemaProps{}, apiextensionsv1.JSONSchemaProps{}
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&sent, &props, nil); err != nil {
			t.Fatal(err)
		}
		if err := apiextensionsv1.Convert_apiextensions_JSONSchemaProps_To_v1_JSONSchemaProps(&props, &stored, nil); err != nil {
			t.Fatal(err)
		}
		want, asSent, ok := typedjson.AppendStored(nil, &stored)
		if !ok || asSent {
			t.Fatalf("%s is stored as it was sent: %t, %t", text, asSent, ok)
		}
		if string(got) != string(want) {
			t.Errorf("%s is stored as\n%s\nwant\n%s", text, got, want)
		}
		if again, ok := canonicalSchema(nil, got); !ok || string(again) != string(got) {
			t.Errorf("%s is no longer the same: %s, %t", got, again, ok)
		}
	})
}
