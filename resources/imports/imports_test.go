package imports

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"

	"github.com/rowlock/rowlock/resources"
)

// kube-apiserver stores custom objects without the defaults of their status, and with fields that the schema has lost since, and shows them by the
// schema. They are imported as shown.
func TestCustomObjectsAreCompleted(t *testing.T) {
	types, err := New("/registry", nil)
	if err != nil {
		t.Fatal(err)
	}
	const definition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"boats.example.com"},"spec":{"group":"example.com",
		"scope":"Cluster","names":{"plural":"boats","kind":"Boat"},"versions":[
		{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{
			"spec":{"type":"object","properties":{"sails":{"type":"integer","default":2},"dinghy":{"type":"object","x-kubernetes-embedded-resource":true,
				"x-kubernetes-preserve-unknown-fields":true}}},
			"status":{"type":"object","default":{"observedGeneration":-1},"properties":{"observedGeneration":{"type":"integer"}}}}}}},
		{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`
	if _, err := types.Import(t.Context(), "/registry/"+crdPlace+"/boats.example.com", []byte(definition)); err != nil {
		t.Fatal(err)
	}
	for stored, want := range map[string]string{
		`{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":"a"},"spec":{"mast":"gone"}}`: `"spec":{"sails":2},"status":{"observedGeneration":-1}}`,
		`{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":"a"},"status":{}}`:            `"status":{}}`,
		`{"apiVersion":"example.com/v2","kind":"Boat","metadata":{"name":"a"},"spec":{"mast":"kept"}}`: `"spec":{"mast":"kept"}}`,
		// Objects that were stored before metadata was validated, and had a generation.
		`{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":"a","labels":{"a":1},"annotations":null,"junk":1},"spec":{"sails":3,"dinghy":{"apiVersion":1,"kind":"D",
			"metadata":{"name":"b","labels":{"a":1},"junk":1}}},"status":{}}`: `"metadata":{"generation":1,"name":"a","resourceVersion":"0"},"spec":{"dinghy":{"kind":"D","metadata":{"name":"b"}},"sails":3},"status":{}}`,
		`{"apiVersion":"example.com/v2","kind":"Boat","metadata":{"name":"a","finalizers":[1],"junk":1},"spec":{}}`:                              `"metadata":{"generation":1,"name":"a","resourceVersion":"0"},"spec":{}}`,
		`{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":"a","generation":7,"labels":{"a":"b"}},"spec":{"sails":3},"status":{}}`: `"metadata":{"generation":7,"labels":{"a":"b"},"name":"a","resourceVersion":"0"},"spec":{"sails":3},"status":{}}`,
	} {
		o, err := types.Import(t.Context(), "/registry/example.com/boats/a", []byte(stored))
		if err != nil || !strings.HasSuffix(string(o.Draft.Data), want) {
			t.Errorf("%s is %s: %v", stored, o.Draft.Data, err)
		}
	}
	if o, err := types.Import(t.Context(), "/registry/example.com/boats/a", []byte(`{"apiVersion":"example.com/v3","kind":"Boat","metadata":{"name":"a"}}`)); err == nil {
		t.Errorf("of a version that there is not: %s", o.Draft.Data)
	}
}

// TestOldObjectsAreImportedAsRead imports objects that older releases have stored. kube-apiserver adds what has come since whenever it reads them.
func TestOldObjectsAreImportedAsRead(t *testing.T) {
	types, err := New("/registry", nil)
	if err != nil {
		t.Fatal(err)
	}
	service := func(spec string) string {
		return `{"apiVersion":"v1","kind":"Service","metadata":{"name":"a","namespace":"n"},"spec":` + spec + `}`
	}
	for _, c := range []struct{ key, stored, want string }{
		{"services/specs/n/a", service(`{"clusterIP":"10.0.0.7","ports":[{"port":80}]}`), `"clusterIPs":["10.0.0.7"]`},
		{"services/specs/n/a", service(`{"clusterIP":"fd00::7","ports":[{"port":80}]}`), `"ipFamilies":["IPv6"],"ipFamilyPolicy":"SingleStack"`},
		{"services/specs/n/a", service(`{"clusterIP":"None","selector":{"a":"b"}}`), `"clusterIPs":["None"]`},
		{"services/specs/n/a", service(`{"clusterIP":"None"}`), `"ipFamilies":["IPv4","IPv6"],"ipFamilyPolicy":"RequireDualStack"`},
		{"services/specs/n/a", service(`{"type":"ExternalName","externalName":"b.c","internalTrafficPolicy":"Cluster"}`), `"internalTrafficPolicy":"Cluster"`},
		{"persistentvolumeclaims/n/a", `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"a","namespace":"n"},"spec":{
			"dataSource":{"kind":"PersistentVolumeClaim","name":"b"}}}`, `"dataSourceRef":{"apiGroup":null,"kind":"PersistentVolumeClaim","name":"b"}`},
	} {
		o, err := types.Import(t.Context(), "/registry/"+c.key, []byte(c.stored))
		if err != nil || !strings.Contains(string(o.Draft.Data), c.want) {
			t.Errorf("%s\nis imported as %s\nwithout %s: %v", c.stored, o.Draft.Data, c.want, err)
		}
	}
}

// All keys begin with a slash, whatever the prefix: kube-apiserver reads no others.
func TestKeysBeginWithASlash(t *testing.T) {
	const stored = `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}`
	for prefix, want := range map[string]string{"/registry": "/registry/", "/registry/": "/registry/", "kubernetes.io": "/kubernetes.io/", "a/b//": "/a/b/", "": "/", "/": "/"} {
		in, err := New(prefix, nil)
		if err != nil {
			t.Fatal(err)
		}
		out, err := NewExporter(prefix, nil)
		if err != nil {
			t.Fatal(err)
		}
		imported, err := in.Import(t.Context(), want+"namespaces/a", []byte(stored))
		if err != nil {
			t.Fatalf("with %q: %v", prefix, err)
		}
		key, _, err := out.Export(t.Context(), resources.NewObject(imported.Key, imported.Draft, 2))
		if err != nil || key != want+"namespaces/a" || in.Prefix() != want {
			t.Errorf("with %q the key is %s below %s, %v", prefix, key, in.Prefix(), err)
		}
	}
}

// Objects that are not text are not imported: the store takes no change of one, and Postgres no such row.
func TestObjectsThatAreNoText(t *testing.T) {
	types, err := New("/registry", nil)
	if err != nil {
		t.Fatal(err)
	}
	for key, stored := range map[string]string{
		"controllerrevisions/n/a": `{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"a","namespace":"n"},"revision":1,"data":{"x":"` + "\xff" + `"}}`,
		"configmaps/n/a": `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"n","managedFields":[{"manager":"m","operation":"Update",
			"apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:` + "\xff" + `":{}}}}]}}`,
	} {
		if o, err := types.Import(t.Context(), "/registry/"+key, []byte(stored)); err == nil || !strings.Contains(err.Error(), "not text in UTF-8") {
			t.Errorf("%s is imported as %q, %v", key, o.Draft.Data, err)
		}
		if _, err := types.Import(t.Context(), "/registry/"+key, []byte(strings.ReplaceAll(stored, "\xff", "ÿ"))); err != nil {
			t.Errorf("with text, %s: %v", key, err)
		}
	}
}

// Errors name the keys that kube-apiserver would give the objects in etcd.
func TestKeysOfErrors(t *testing.T) {
	types, err := New("/registry", nil)
	if err != nil {
		t.Fatal(err)
	}
	for place, of := range types.places {
		if got, want := of.KeyOf("", "a").InEtcd(), "/registry/"+place+"/a"; got != want {
			t.Errorf("%s is said to be at %s, want %s", of.ResourceName(), got, want)
		}
	}
	if got := (resources.Key{Resource: "routes.gateway.networking.k8s.io", Namespace: "n", Name: "a"}).InEtcd(); got != "/registry/gateway.networking.k8s.io/routes/n/a" {
		t.Error(got)
	}
}

// Objects of a definition without pruning are imported whole, and Unpruned reports the definition.
func TestObjectsThatAreNotPruned(t *testing.T) {
	types, err := New("/registry", nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, preserves := range map[string]string{"boats": `"preserveUnknownFields":true`, "ships": `"preserveUnknownFields":false`, "crews": `"scope":"Cluster"`} {
		definition := `{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"CustomResourceDefinition","metadata":{"name":"` + name + `.example.com"},"spec":{
			"group":"example.com","version":"v1","scope":"Cluster","names":{"plural":"` + name + `","kind":"Boat"},` + preserves + `,
			"validation":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object"}}}}}}`
		if _, err := types.Import(t.Context(), "/registry/"+crdPlace+"/"+name+".example.com", []byte(definition)); err != nil {
			t.Fatal(err)
		}
		stored := `{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":"a"},"mast":"tall"}`
		o, err := types.Import(t.Context(), "/registry/example.com/"+name+"/a", []byte(stored))
		if err != nil || strings.Contains(string(o.Draft.Data), "tall") != (name != "ships") {
			t.Errorf("%s: %s, %v", name, o.Draft.Data, err)
		}
	}
	// v1beta1 keeps unknown fields unless the definition says otherwise.
	if have := strings.Join(types.Unpruned(), " "); have != "boats.example.com crews.example.com" {
		t.Errorf("it names %q", have)
	}
}

// kube-apiserver stores custom objects as CBOR while its gate CBORServingAndStorage is set, and reads them also later. They are imported like those in
// JSON, and so are built-in objects.
func TestObjectsInCBOR(t *testing.T) {
	types, err := New("/registry", nil)
	if err != nil {
		t.Fatal(err)
	}
	const definition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"boats.example.com"},"spec":{"group":"example.com",
		"scope":"Cluster","names":{"plural":"boats","kind":"Boat"},"versions":[
		{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}]}}`
	if _, err := types.Import(t.Context(), "/registry/"+crdPlace+"/boats.example.com", []byte(definition)); err != nil {
		t.Fatal(err)
	}
	for key, stored := range map[string]string{
		"example.com/boats/a": `{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":"a","generation":3,"labels":{"a":"b"}},"spec":{"n":9007199254740993,"x":0.5,"on":true,"none":null,"list":["é\u0001",-1]},"lost":1}`,
		"configmaps/n/a":      `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"n"},"data":{"a":"b"},"binaryData":{"c":"AAEC"}}`,
	} {
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON([]byte(stored)); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := cbor.NewSerializer(nil, nil).Encode(u, &b); err != nil {
			t.Fatal(err)
		}
		want, err := types.Import(t.Context(), "/registry/"+key, []byte(stored))
		if err != nil {
			t.Fatal(err)
		}
		if have, err := types.Import(t.Context(), "/registry/"+key, b.Bytes()); err != nil || have.Key != want.Key || string(have.Draft.Data) != string(want.Draft.Data) {
			t.Errorf("of CBOR it is %s, want %s, %v", have.Draft.Data, want.Draft.Data, err)
		}
		for n := range b.Len() {
			if o, err := types.Import(t.Context(), "/registry/"+key, b.Bytes()[:n]); err == nil {
				t.Fatalf("of %d bytes of %d: %s", n, b.Len(), o.Draft.Data)
			}
		}
	}
}

// A definition whose resource is one of the server's own rows is not imported, and neither are its objects, which would be credentials.
func TestObjectsOfTheServersOwnResources(t *testing.T) {
	for _, of := range []struct{ group, plural string }{{"rowlock.internal", "tokens"}, {"a.rowlock.internal", "tokens"}, {"internal", "tokens.rowlock"},
		{"", "tokens.rowlock.internal"}} {
		types, err := New("/registry", nil)
		if err != nil {
			t.Fatal(err)
		}
		definition := `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"tokens.rowlock.internal"},"spec":{
			"group":"` + of.group + `","scope":"Cluster","names":{"plural":"` + of.plural + `","kind":"Token"},"versions":[{"name":"v1","served":true,"storage":true,
			"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`
		object := `{"apiVersion":"` + of.group + `/v1","kind":"Token","metadata":{"name":"a"},"spec":{"hash":"x"}}`
		for key, stored := range map[string]string{crdPlace + "/tokens.rowlock.internal": definition, of.group + "/" + of.plural + "/a": object} {
			for range 2 {
				if o, err := types.Import(t.Context(), "/registry/"+key, []byte(stored)); !errors.Is(err, errOwn) {
					t.Errorf("%s is imported as %s %s, %v", key, o.Key, o.Draft.Data, err)
				}
			}
		}
	}
}
