package handlers

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatchv4 "gopkg.in/evanphx/json-patch.v4"
)

const patchedDocument = `{"kind":"ConfigMap","metadata":{"name":"a","labels":{"x":"y"},"finalizers":["a","b"]},` +
	`"data":{"k":"a\u0026b","slash":"1"},"raw":{"a":[1,null,{"b":null}],"n":1.50,"e":1e3}}`

// TestPatchVersions checks that version 5 of the library applies usual patches, and that patches for which it differs from version 4 are left to
// that.
func TestPatchVersions(t *testing.T) {
	for patch, common := range map[string]bool{
		`[{"op":"add","path":"/data/n","value":"v"},{"op":"remove","path":"/data/k"}]`:            true,
		`[{"op":"replace","path":"/metadata/labels/x","value":"<&>"}]`:                            true,
		`[{"op":"test","path":"/data/slash","value":"1"},{"op":"add","path":"/a~1b","value":[]}]`: false, // the document has an escape
		`[{"op":"move","from":"/data","path":"/metadata/data"}]`:                                  true,
		`[{"op":"copy","from":"/metadata/finalizers/-1","path":"/metadata/finalizers/-"}]`:        true,
		`[{"op":"add","path":"","value":{}}]`:                                                     false,
		`[{"op":"copy","from":"","path":"/x"}]`:                                                   false,
		`[{"op":"add","path":"/","value":1}]`:                                                     false,
		`[{"op":"add","path":"/metadata//x","value":1}]`:                                          false,
		`[{"op":"replace","path":"/missing","value":1}]`:                                          false, // version 4 adds it
		`[{"op":"add","path":"/x","value":{"a":1,"a":2}},{"op":"remove","path":"/x/a"}]`:          false,
		`[{"op":"nosuch","path":"/x"}]`:                                                           false,
	} {
		if _, ok := applyCommon([]byte(patch), []byte(patchedDocument)); ok != common {
			t.Errorf("%s: taken by version 5: %v", patch, ok)
		}
		patchLikeVersion4(t, []byte(patch), []byte(patchedDocument))
	}
}

// patchLikeVersion4 fails the test if version 5 is used for a patch and differs from version 4.
func patchLikeVersion4(t *testing.T, patch, doc []byte) {
	t.Helper()
	got, ok := applyCommon(patch, doc)
	if !ok {
		return
	}
	operations, err := jsonpatchv4.DecodePatch(patch)
	if err != nil {
		t.Fatalf("%s: version 4 does not read it: %v", patch, err)
	}
	want, err := applyVersion4(operations, doc)
	if err != nil {
		t.Fatalf("%s: version 5 makes %s of %s, version 4 refuses it: %v", patch, got, doc, err)
	}
	if diff := cmp.Diff(decodedPatch(t, want), decodedPatch(t, got)); diff != "" {
		t.Errorf("%s: the versions differ (-4 +5):\n%s", patch, diff)
	}
	if want, got := bytes.Count(want, []byte(`\u0026`)), bytes.Count(got, []byte(`\u0026`)); want != got {
		t.Errorf("%s: version 4 writes %d escapes, version 5 %d", patch, want, got)
	}
}

func decodedPatch(t *testing.T, data []byte) any {
	t.Helper()
	var value any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return value
}

func FuzzPatchVersions(f *testing.F) {
	for _, operation := range []string{`"add","path":"/data/n","value":"v"`, `"remove","path":"/data/k"`, `"replace","path":"/raw/a/1","value":null`,
		`"test","path":"/data/slash","value":"1"`, `"test","path":"/raw/n","value":1.5`, `"test","path":"/raw/a","value":[1,null,{"b":null}]`,
		`"move","from":"/data","path":"/metadata/data"`, `"copy","from":"/raw/a/-1","path":"/raw/a/0"`, `"add","path":"","value":[]`,
		`"test","path":"/missing","value":null`, `"test","path":"/data/k","value":"a&b"`, `"add","path":"/raw/a/b/c"`, `"copy","from":"/missing","path":"/x"`} {
		f.Add([]byte(`[{"op":`+operation+`}]`), []byte(patchedDocument))
		f.Add([]byte(`[{"op":"add","path":"/x","value":null},{"op":`+operation+`},{"op":"copy","from":"/raw","path":"/y"},{"op":"test","path":"/y/n","value":1}]`),
			[]byte(`{"data":{"slash":"1","k":"x"},"raw":{"a":[1,null,{"b":null}],"n":1.50}}`))
	}
	f.Fuzz(func(t *testing.T, patch, doc []byte) {
		if !isJSONObject(doc) || !json.Valid(doc) || !json.Valid(patch) || !eachKeyOnce(doc, new(map[string]any)) {
			return // such documents occur only with duplicate keys in raw data, whose order does not matter
		}
		patchLikeVersion4(t, patch, doc)
	})
}
