package plan

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	structuraldefaulting "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	structurallisttype "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	schemaobjectmeta "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	structuralpruning "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-openapi/pkg/validation/spec"
	kjson "sigs.k8s.io/json"
)

// sides are a schema in upstream's forms, and its plan.
type sides struct {
	validator  validation.SchemaValidator
	structural *structuralschema.Structural
	plan       *Node
}

// sidesOf reads a schema. ok is false where no definition could have it.
func sidesOf(t testing.TB, schema map[string]any) (s sides, ok bool) {
	t.Helper()
	text, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	var props apiextensionsv1.JSONSchemaProps
	if err := json.Unmarshal(text, &props); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&props, &internal, nil); err != nil {
		return s, false
	}
	if s.structural, err = structuralschema.NewStructural(&internal); err != nil {
		return s, false
	}
	s.structural = s.structural.DeepCopy()
	if err := structuraldefaulting.PruneDefaults(s.structural); err != nil {
		return s, false
	}
	validator, openAPI, err := validation.NewSchemaValidator(&internal)
	if err != nil {
		return s, false
	}
	s.validator, s.plan = validator, Compile(openAPI, s.structural)
	return s, true
}

func copyOf(object map[string]any) map[string]any { return apiruntime.DeepCopyJSON(object) }

// agree compares the plan with upstream, on an object and on its change into another one. It returns how often the plan and upstream
// found an object valid.
func (s sides) agree(t testing.TB, schema, object, old map[string]any) (byPlan, byUpstream int) {
	t.Helper()
	show := func() string {
		text, _ := json.Marshal([]any{schema, object, old})
		return string(text)
	}
	refused := len(validation.ValidateCustomResource(nil, object, s.validator)) > 0 ||
		len(schemaobjectmeta.Validate(t.Context(), nil, object, s.structural, false)) > 0 ||
		len(structurallisttype.ValidateListSetsAndMaps(nil, s.structural, object)) > 0
	is := s.plan.Valid(object, false)
	if is && refused {
		t.Errorf("the plan takes what upstream refuses: %s", show())
	}
	if s.plan.Valid(object, true) && len(validation.ValidateCustomResourceUpdate(nil, object, old, s.validator)) > 0 {
		t.Errorf("the plan takes what upstream refuses in an update: %s", show())
	}

	pruned := copyOf(object)
	structuralpruning.Prune(pruned, s.structural, true)
	structuraldefaulting.PruneNonNullableNullsWithoutDefaults(pruned, s.structural)
	within := *s.structural
	within.XEmbeddedResource = false // Clean ignores the metadata of the object itself
	wrong := schemaobjectmeta.Coerce(nil, pruned, &within, false, false)
	empty := func(metadata any) bool { m, ok := metadata.(map[string]any); return ok && len(m) == 0 }
	if s.plan.Clean(object, empty) && (wrong != nil || !reflect.DeepEqual(pruned, object)) {
		t.Errorf("the plan finds clean what upstream coerces: %s", show())
	}
	before, _ := json.Marshal(object)
	defaulted, filled := copyOf(object), copyOf(object)
	structuraldefaulting.Default(defaulted, s.structural)
	if !s.plan.Fill(filled) || !reflect.DeepEqual(defaulted, filled) {
		t.Errorf("filled: %s\n got %v\nwant %v", show(), filled, defaulted)
	}
	if after, _ := json.Marshal(object); string(before) != string(after) {
		t.Errorf("%s was changed into %s", before, after)
	}
	return count(is), count(!refused)
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// compare makes a schema and two objects from bytes, and compares.
func compare(t testing.TB, data []byte) (byPlan, byUpstream int) {
	g := &generator{data: data}
	schema := g.object(3)
	s, ok := sidesOf(t, schema)
	if !ok {
		return 0, 0
	}
	if s.plan != sidesAgain(t, schema) {
		t.Errorf("a schema has two plans: %v", schema)
	}
	if stored, ok := CompileStored(storedText(t, schema)); ok && stored != s.plan {
		t.Errorf("the plan of the text is another one: %v", schema)
	}
	object, _ := g.valueOf(schema, 4).(map[string]any)
	old, _ := g.valueOf(schema, 4).(map[string]any)
	if object == nil || old == nil {
		return 0, 0
	}
	return s.agree(t, schema, object, old)
}

func sidesAgain(t testing.TB, schema map[string]any) *Node {
	s, _ := sidesOf(t, schema)
	return s.plan
}

func FuzzAgreesWithUpstream(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		f.Add(randomBytes(r))
	}
	f.Fuzz(func(t *testing.T, data []byte) { compare(t, data) })
}

func randomBytes(r *rand.Rand) []byte {
	data := make([]byte, 600)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}

// The plan agrees with upstream on random input, and has a verdict on most valid objects.
func TestAgreesWithUpstream(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	byPlan, byUpstream := 0, 0
	for range 4000 {
		p, u := compare(t, randomBytes(r))
		byPlan, byUpstream = byPlan+p, byUpstream+u
	}
	if byUpstream < 400 || byPlan*2 < byUpstream {
		t.Errorf("of %d valid objects the plan takes %d", byUpstream, byPlan)
	}
	t.Logf("of %d valid objects the plan takes %d", byUpstream, byPlan)
}

// TestOddities checks upstream's oddities that the plan has to follow.
func TestOddities(t *testing.T) {
	for _, c := range []struct{ schema, object string }{
		{`{"type":"integer"}`, `1.0`}, {`{"type":"integer","format":"int32"}`, `4294967296`}, {`{"type":"integer","maximum":1.5}`, `1`},
		{`{"type":"number","maximum":1.5}`, `2`}, {`{"type":"number","minimum":-1.5}`, `-2`}, {`{"type":"number","format":"float"}`, `1e300`},
		{`{"type":"integer","maximum":3,"exclusiveMaximum":true}`, `3`}, {`{"type":"integer","multipleOf":2}`, `3`},
		{`{"type":"string","enum":["a"]}`, `97`}, {`{"x-kubernetes-int-or-string":true,"enum":["a"]}`, `97`},
		{`{"type":"string","nullable":true,"enum":["a"]}`, `null`}, {`{"type":"string","enum":["a",null],"nullable":true}`, `null`},
		{`{"type":"string","maxLength":1}`, `"ä"`}, {`{"type":"string","maxLength":1}`, `"äb"`}, {`{"type":"string","minLength":2}`, `"ä"`},
		{`{"type":"string","format":"date-time"}`, `"no"`}, {`{"type":"string","format":"nobody"}`, `"x"`}, {`{"type":"boolean","format":"ipv4"}`, `"1.2.3.4"`},
		{`{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"set"}`, `["a","a"]`},
		{`{"type":"array","items":{"type":"integer"},"x-kubernetes-list-type":"set"}`, `[1,1.0]`},
		{`{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["a","b"],"items":{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"string"}}}}`,
			`[{"a":1},{"a":1.0}]`},
		{`{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["a"],"items":{"type":"object","properties":{"a":{"type":"string"}}}}`, `[{},{}]`},
		{`{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}`, `{"kind":"K"}`},
		{`{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true,"properties":{"a":{"type":"object"}}}`,
			`{"kind":"K","apiVersion":"v1","metadata":{"name":"x","junk":1},"a":{"b":1},"c":{}}`},
		{`{"type":"object","additionalProperties":{"type":"string","nullable":false,"default":"d"}}`, `{"a":null}`},
		{`{"type":"array","items":{"type":"string","default":"d"}}`, `[null]`}, {`{"type":"array","items":{"type":"string"}}`, `[null]`},
		{`{"type":"object","default":{"b":{}},"properties":{"a":{"type":"string","default":"d"},"b":{"type":"object","properties":{"c":{"type":"integer","default":1}}}}}`, `null`},
		{`{"type":"object","properties":{"a":{"type":"string"}}}`, `{"a":null,"b":null}`},
		{`{"type":"object","default":{"a":null},"properties":{"a":{"type":"string"},"b":{"type":"string","default":"d"}}}`, `null`},
		{`{"type":"array","items":{"type":"object","default":{"a":null},"properties":{"a":{"type":"string"}}}}`, `[null,{"a":null}]`},
		{`{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"a":{"type":"object"}}}`, `{"a":{"b":1},"c":{"d":null}}`},
		{`{"type":"object","not":{"required":["a"]}}`, `{"a":1}`}, {`{"type":"object","oneOf":[{"required":["a"]},{"required":["b"]}]}`, `{"a":1,"b":2}`},
	} {
		var of any
		if err := json.Unmarshal([]byte(c.schema), &of); err != nil {
			t.Fatal(err)
		}
		schema := map[string]any{"type": "object", "properties": map[string]any{"spec": of}}
		s, ok := sidesOf(t, schema)
		if !ok {
			t.Errorf("%s is no schema", c.schema)
			continue
		}
		for _, object := range []string{`{"spec":` + c.object + `}`, `{}`} {
			var o map[string]any
			if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(object), &o); err != nil {
				t.Fatal(err)
			}
			s.agree(t, schema, o, copyOf(o))
		}
	}
}

// In an update upstream accepts unchanged values, which makes invalid branches valid.
func TestRatchetingWithinBranches(t *testing.T) {
	schema := map[string]any{"type": "object", "properties": map[string]any{"spec": map[string]any{"type": "object",
		"properties": map[string]any{"a": map[string]any{"type": "string"}, "b": map[string]any{"type": "string"}},
		"not":        map[string]any{"properties": map[string]any{"a": map[string]any{"enum": []any{"x"}}}}}}}
	s, ok := sidesOf(t, schema)
	if !ok {
		t.Fatal("no schema")
	}
	object := map[string]any{"spec": map[string]any{"a": "y", "b": "1"}}
	s.agree(t, schema, object, map[string]any{"spec": map[string]any{"a": "y", "b": "2"}})
	if !s.plan.Valid(object, false) {
		t.Error("the plan does not take it when it is created")
	}
}

// Nodes are released with the last plan that has them.
func TestNodesAreSharedAndGo(t *testing.T) {
	leaf := map[string]any{"type": "string", "pattern": "^of TestNodesAreSharedAndGo$"}
	schema := map[string]any{"type": "object", "properties": map[string]any{"a": leaf, "b": leaf}}
	s, _ := sidesOf(t, schema)
	if s.plan.fields["a"] != s.plan.fields["b"] {
		t.Error("nodes that say the same are two")
	}
	with := Nodes()
	key := s.plan.key()
	runtime.KeepAlive(s)
	s = sides{}
	gone := func() bool {
		runtime.GC()
		nodes.mu.Lock()
		defer nodes.mu.Unlock()
		_, there := nodes.made[key]
		return !there
	}
	for i := 0; !gone(); i++ {
		if i == 1000 {
			t.Fatalf("the node stays; there were %d", with)
		}
		runtime.Gosched()
	}
}

// A node whose two forms of the schema differ covers nothing, and is not shared with a node that differs in this alone.
func TestOddNodesCoverNothing(t *testing.T) {
	property := spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"string"}}}
	of := func(validation spec.SchemaProps, structure structuralschema.Structural) *Node {
		structure.Generic.Type = "object"
		validation.Type, validation.Properties = spec.StringOrArray{"object"}, map[string]spec.Schema{"a": property}
		structure.Properties = map[string]structuralschema.Structural{"a": {Generic: structuralschema.Generic{Type: "string"}}}
		return Compile(&spec.Schema{SchemaProps: validation}, &structure)
	}
	foreign := of(spec.SchemaProps{UniqueItems: true}, structuralschema.Structural{})
	odd := of(spec.SchemaProps{Nullable: true}, structuralschema.Structural{})
	if !foreign.Clean(map[string]any{"a": "x"}, nil) || !foreign.Fill(map[string]any{}) {
		t.Error("a schema with a rule for upstream's validator has no plan for its fields")
	}
	if foreign == odd || odd.Clean(map[string]any{"a": "x"}, nil) || odd.Fill(map[string]any{}) {
		t.Error("a schema whose forms differ is covered")
	}
}

// storedText is the stored form of a schema.
func storedText(t testing.TB, schema map[string]any) string {
	t.Helper()
	text, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	var props, back apiextensionsv1.JSONSchemaProps
	internal := &apiextensions.JSONSchemaProps{}
	if err := json.Unmarshal(text, &props); err != nil {
		t.Fatal(err)
	}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&props, internal, nil); err != nil {
		t.Fatal(err)
	}
	if err := apiextensionsv1.Convert_apiextensions_JSONSchemaProps_To_v1_JSONSchemaProps(internal, &back, nil); err != nil {
		t.Fatal(err)
	}
	if text, err = json.Marshal(back); err != nil {
		t.Fatal(err)
	}
	return string(text)
}
