package custom

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fastpath"
)

// thingSchema has every feature that pruning, nulls and defaults depend on.
const thingSchema = `{"type":"object","properties":{"spec":{"type":"object","properties":{
	"size":{"type":"integer","default":1},"text":{"type":"string","nullable":true},"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
	"entries":{"type":"object","additionalProperties":{"type":"object","default":{"n":1},"properties":{"n":{"type":"integer","default":2}}}},
	"items":{"type":"array","items":{"type":"object","properties":{"n":{"type":"integer"}}}},
	"within":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}}}}}`

func thing(t testing.TB) *definition { return thingWith(t, thingSchema) }

// thingWith is the definition of things with another schema.
func thingWith(t testing.TB, schema string) *definition {
	crd := `{"spec":{"versions":[{"name":"v1","schema":{"openAPIV3Schema":` + schema + `}}]}}`
	d := emptyDefinition(&resources.Object{Data: []byte(crd)})
	d.compiled = &compiled{room: 1 << 20}
	bones, err := d.decode()
	if err != nil {
		t.Fatal(err)
	}
	d.group, d.kind, d.sums, d.texts = "example.com", "Thing", bones.sums, bones.texts
	return d
}

// FuzzCoerce: an object comes out of coerce, and then out of fill, as it does without the fast path.
func FuzzCoerce(f *testing.F) {
	for _, spec := range []string{`{}`, `{"size":null,"text":null,"junk":null}`, `{"size":1.0,"free":{"a":{"b":null}}}`, `{"entries":{"a":null,"b":{"n":null,"m":1}}}`,
		`{"items":[{"n":1,"m":2},null]}`, `{"within":{"kind":"K","apiVersion":"v1","metadata":{"name":"x","creationTimestamp":null,"junk":1}}}`, `null`, `[]`} {
		for _, metadata := range []string{`{"name":"a"}`, `{"name":"a","labels":{"a":"<b>"},"annotations":{"c":""},"finalizers":["d"],"uid":"e"}`, `{"name":""}`,
			`{"name":1}`, `{"labels":{}}`, `{"labels":{"a":null}}`, `{"finalizers":[]}`, `{"finalizers":[null]}`, `{"creationTimestamp":null}`,
			`{"creationTimestamp":"2026-05-04T10:20:30+02:00"}`, `{"creationTimestamp":"2026-05-04T10:20:30Z","generation":3,"selfLink":"/x"}`,
			`{"creationTimestamp":"2026-05-04T10:20:30.5Z"}`, `{"creationTimestamp":"0001-01-01T00:00:00Z"}`, `{"deletionTimestamp":"2026-05-04T10:20:30Z","deletionGracePeriodSeconds":0}`,
			`{"generation":0}`, `{"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"","uid":"u","controller":false}]}`, `{"ownerReferences":[{"kind":"K"}]}`,
			`{"ownerReferences":[]}`, `{"managedFields":[]}`, `{"managedFields":[{}]}`, `{"managedFields":[{"manager":"m","operation":"Update","apiVersion":"v1",
			"fieldsType":"FieldsV1","time":"2026-05-04T10:20:30Z","subresource":"status","fieldsV1":{"f:spec":{"f:<a>":{},"k:{\"n\":1}":{".":{}}}}}]}`,
			`{"managedFields":[{"manager":"","fieldsV1":{}}]}`, `{"managedFields":[{"fieldsV1":{"a":[1.0]}}]}`, `{"managedFields":[{"fieldsV1":null}]}`, `{"deletionTimestamp":null}`, `{"Name":"a"}`, `{"generation":1.0}`, `{"name":"\ud800"}`, `null`} {
			f.Add(fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":%s,"spec":%s}`, metadata, spec))
		}
	}
	for _, whole := range []string{`{}`, `{"apiVersion":1}`, `{"kind":"Thing","apiVersion":"example.com/v1"}`, `{"kind":"Other","apiVersion":"example.com/v1","a":1}`} {
		f.Add(whole)
	}
	d := thing(f)
	f.Fuzz(func(t *testing.T, text string) {
		var object map[string]any
		if kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), &object) != nil || object == nil {
			return
		}
		type outcome struct {
			object  any
			unknown []string
			err     string
		}
		outcomes := func(on, track bool) (o outcome) {
			defer fastpath.CustomDefaults.Turn(on)()
			u := (&unstructured.Unstructured{Object: object}).DeepCopy()
			unknown, err := d.coerce(u, track)
			if err != nil {
				return outcome{err: err.Error()} // the object is discarded
			}
			d.fill("v1", u.Object)
			if len(unknown) > 0 {
				o.unknown = unknown
			}
			o.object = u.Object
			return o
		}
		for _, track := range []bool{true, false} {
			if got, want := outcomes(true, track), outcomes(false, track); !reflect.DeepEqual(got, want) {
				t.Errorf("%s\n got %v\nwant %v", text, got, want)
			}
		}
	})
}

// The fast path recognises a body that already has the stored form.
func TestPlainObjectsAreCoercedQuickly(t *testing.T) {
	t.Cleanup(fastpath.CustomDefaults.Turn(true))
	before := fastpath.CustomDefaults.Fallbacks()
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Thing",
		"metadata": map[string]any{"name": "a", "labels": map[string]any{"a": "b"}, "creationTimestamp": "2026-05-04T10:20:30Z", "generation": int64(1),
			"ownerReferences": []any{map[string]any{"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u"}}, "managedFields": []any{map[string]any{"manager": "m",
				"operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:spec": map[string]any{}}, "time": "2026-05-04T10:20:30Z"}}},
		"spec": map[string]any{"size": int64(3), "within": map[string]any{"apiVersion": "v1", "kind": "K", "metadata": map[string]any{"name": "b"}, "more": "c"}}}}
	if unknown, err := thing(t).coerce(u, true); err != nil || unknown != nil {
		t.Errorf("%v %v", unknown, err)
	}
	if fastpath.CustomDefaults.Fallbacks() != before {
		t.Error("by upstream")
	}
}

// Invalid parts of an object are dropped when it is read from the store, and are an error when it is to be stored.
func TestWrongMetadataIsRepairedOrRefused(t *testing.T) {
	d := thing(t)
	object := func() *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Thing",
			"metadata": map[string]any{"name": "a", "labels": map[string]any{"a": int64(1)}, "annotations": nil},
			"spec":     map[string]any{"size": nil, "within": map[string]any{"apiVersion": int64(1), "kind": "K", "metadata": map[string]any{"creationTimestamp": nil, "junk": "b"}}}}}
	}
	stored := object()
	d.repair(stored)
	want := map[string]any{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "a", "generation": int64(1)},
		"spec": map[string]any{"size": nil, "within": map[string]any{"kind": "K", "metadata": map[string]any{}}}}
	if !reflect.DeepEqual(stored.Object, want) {
		t.Errorf("got %v\nwant %v", stored.Object, want)
	}
	old := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "a"}}}
	if d.repair(old); old.GetGeneration() != 1 {
		t.Errorf("an object without a generation has %d", old.GetGeneration())
	}
	u := object()
	if err := d.settle(u); err == nil || !strings.Contains(err.Error(), "ObjectMeta.labels") {
		t.Errorf("labels: %v", err)
	}
	unstructured.RemoveNestedField(u.Object, "metadata", "labels")
	if err := d.settle(u); err == nil || err.Error() != "spec.within.apiVersion: Invalid value: 1: must be a string" {
		t.Errorf("apiVersion: %v", err)
	}
	u.SetAPIVersion("example.com/gone")
	if err := d.settle(u); err != nil || !reflect.DeepEqual(u.Object["metadata"], map[string]any{"name": "a"}) || u.Object["spec"] == nil {
		t.Errorf("in a version that is gone: %v %v", err, u.Object)
	}
}
