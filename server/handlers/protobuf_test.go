package handlers_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
)

var asProtobuf = says{"Content-Type": "application/vnd.kubernetes.protobuf", "Accept": "application/vnd.kubernetes.protobuf"}

// "Kubernetes Protobuf encoding": objects of every type can be created in it, with the same result as from JSON.
func TestProtobufOfEveryType(t *testing.T) {
	a := newAPI(t)
	registry := resources.NewRegistry()
	registry.SetGroups(builtin.Groups())
	files, err := filepath.Glob("../../e2e/testdata/types/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	tried := 0
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data))); ; {
			document, err := documents.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if path := pathOf(t, registry.Catalog(), document); path != "" {
				tried++
				a.sameInProtobuf(path, document)
			}
		}
	}
	if tried < 50 {
		t.Errorf("only %d types", tried)
	}
}

var uids = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// pathOf is the path of the collection of a document's object; empty if the type is not stored.
func pathOf(t *testing.T, catalog *resources.Catalog, document []byte) string {
	t.Helper()
	var m metav1.TypeMeta
	if err := yaml.Unmarshal(document, &m); err != nil {
		t.Fatal(err)
	}
	gv := m.GroupVersionKind().GroupVersion()
	group, _ := catalog.Group(gv.Group)
	for _, v := range group.Versions {
		for _, s := range v.Resources {
			if v.GroupVersion != gv || s.Type.Kind != m.Kind || !s.Stored() {
				continue
			}
			path := "/apis/" + gv.String() + "/"
			if gv.Group == "" {
				path = "/api/" + gv.Version + "/"
			}
			if s.Namespaced {
				path += "namespaces/test/"
			}
			return path + s.Resource
		}
	}
	return ""
}

// sameInProtobuf creates an object in JSON and again in protobuf, and compares the results.
func (a *api) sameInProtobuf(path string, document []byte) {
	a.Helper()
	document = bytes.ReplaceAll(document, []byte("NAMESPACE"), []byte("test"))
	if strings.HasSuffix(path, "/services") {
		document = bytes.Replace(document, []byte("spec:"), []byte("spec:\n  clusterIP: None"), 1) // no addresses are available
	}
	inJSON, err := yaml.YAMLToJSON(document)
	if err != nil {
		a.Fatal(err)
	}
	obj, kind, err := builtin.Codecs.UniversalDeserializer().Decode(inJSON, nil, nil)
	if err != nil {
		a.Fatal(err)
	}
	obj.GetObjectKind().SetGroupVersionKind(*kind)
	var inProtobuf bytes.Buffer
	if err := protobuf.NewSerializer(builtin.Scheme, builtin.Scheme).Encode(obj, &inProtobuf); err != nil {
		a.Fatal(err)
	}
	create := "POST " + path + "?dryRun=All"
	fromJSON := a.send(exchange{do: create, header: says{"Content-Type": "application/json"}, body: string(inJSON)})
	fromProtobuf := a.send(exchange{do: create, header: asProtobuf, body: inProtobuf.String()})
	if fromJSON.Code != 201 || fromProtobuf.Code != 201 {
		a.Errorf("%s: %d in JSON, %d in protobuf: %.500s%q", path, fromJSON.Code, fromProtobuf.Code, fromJSON.Body, fromProtobuf.Body)
		return
	}
	got, _, err := builtin.Codecs.UniversalDeserializer().Decode(fromProtobuf.Body.Bytes(), nil, nil)
	if err != nil {
		a.Fatal(err)
	}
	want, _, err := builtin.Codecs.UniversalDeserializer().Decode(fromJSON.Body.Bytes(), nil, nil)
	if err != nil {
		a.Fatal(err)
	}
	var gotSpec, wantSpec bytes.Buffer
	for buf, o := range map[*bytes.Buffer]any{&gotSpec: got, &wantSpec: want} {
		data, err := yaml.Marshal(o)
		if err != nil {
			a.Fatal(err)
		}
		if data, err = yaml.YAMLToJSON(data); err != nil {
			a.Fatal(err)
		}
		buf.WriteString(gjson.GetBytes(data, "spec").Raw + gjson.GetBytes(data, "data").Raw + gjson.GetBytes(data, "metadata.name").Raw)
	}
	// Protobuf does not distinguish an empty list from an absent one, and a Job contains its own uid.
	normal := func(b *bytes.Buffer) string {
		return uids.ReplaceAllString(strings.ReplaceAll(b.String(), "[]", "null"), "uid")
	}
	if diff := cmp.Diff(normal(&wantSpec), normal(&gotSpec)); diff != "" {
		a.Errorf("%s (-JSON +protobuf):\n%s", path, diff)
	}
}
