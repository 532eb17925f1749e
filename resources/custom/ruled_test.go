package custom

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rowlock/rowlock/e2e/harness"
	"github.com/rowlock/rowlock/resources/fastpath"
)

// asText is a definition with one version whose schema is text.
func asText(schema string) *apiextensions.CustomResourceDefinition {
	crd := validDefinition()
	crd.Spec.Versions[0].Schema = &apiextensions.CustomResourceValidation{OpenAPIV3Schema: placeholder(mark + schema)}
	crd.Spec.Versions[0].SelectableFields = nil
	return crd
}

var selfType = regexp.MustCompile(`selfType\d+`)

// validateText compares the errors of a definition with upstream's, whatever is known before.
func validateText(t *testing.T, by *definitionStrategy, schema string) (valid bool) {
	t.Helper()
	whole := asText(schema)
	if restore(whole, readProps) != nil {
		return false
	}
	sorted := func(errs []string) string { // without the clock in the names of types
		slices.Sort(errs)
		return selfType.ReplaceAllString(strings.Join(errs, "\n"), "selfType")
	}
	var got, want []string
	for _, err := range by.validateLean(t.Context(), asText(schema)) {
		got = append(got, err.Error())
	}
	for _, err := range upstreams(whole, nil) {
		want = append(want, err.Error())
	}
	// Upstream walks maps, so it names any of the rules that cost the same.
	some := func(err string) bool { return strings.Contains(err, "contributed to estimated rule cost total") }
	got, want = slices.DeleteFunc(got, some), slices.DeleteFunc(want, some)
	if sorted(got) != sorted(want) {
		t.Errorf("%s:\n%s\nwant\n%s", schema, sorted(got), sorted(want))
	}
	if len(want) == 0 {
		got, want := by.WarningsOnCreate(t.Context(), asText(schema)), by.RESTCreateStrategy.WarningsOnCreate(t.Context(), whole)
		if !slices.Equal(got, want) {
			t.Errorf("%s:\nwarnings %q, want %q", schema, got, want)
		}
		checkStored(t, whole.Spec.Versions[0].Schema.OpenAPIV3Schema, schema)
	}
	return len(want) == 0
}

// checkStored compares a schema that upstream found valid, and may have changed, with its text, where that has the stored form.
func checkStored(t *testing.T, valid *apiextensions.JSONSchemaProps, schema string) {
	t.Helper()
	text, ok := canonicalSchema(nil, []byte(schema))
	if !ok {
		return
	}
	if want, ok := storedText(valid); !ok || want != mark+string(text) {
		t.Errorf("%s: upstream stores %s, %t", text, want, ok)
	}
}

func newTextStrategy(t *testing.T) *definitionStrategy {
	t.Cleanup(fastpath.Definitions.Turn(true))
	return &definitionStrategy{RESTCreateStrategy: customresourcedefinition.NewStrategy(runtime.NewScheme()), definitions: &Definitions{}}
}

// ruleChoices are rules, each of which is valid in some places.
var ruleChoices = []string{`{"rule":"true"}`, `{"rule":"self == oldSelf"}`, `{"rule":"self.size() > 0"}`, `{"rule":"has(self.a)"}`, `{"rule":"self.a == 'x' || self.b == 'x'"}`,
	`{"rule":"self.all(x, self.exists(y, x == y))"}`, `{"rule":"self.all(x, self.all(y, self.all(z, x == z || y == z)))"}`, `{"rule":"self.metadata.name == 'a'"}`, `{"rule":"self > 1"}`,
	`{"rule":"true","messageExpression":"'a' + 'b'"}`, `{"rule":"true","messageExpression":"1"}`, `{"rule":"true","fieldPath":".a"}`, `{"rule":"true","fieldPath":" "}`,
	`{"rule":"true","reason":"FieldValueRequired"}`, `{"rule":"true","reason":"Nonsense"}`, `{"rule":"true","optionalOldSelf":true}`, `{"rule":"oldSelf.hasValue() || self == 1","optionalOldSelf":true}`,
	`{"rule":"true\n"}`, `{"rule":"true ||\ntrue"}`, `{"rule":"true","message":"a\nb"}`, `{"rule":" "}`, `{"rule":"self.matches('[')"}`, `{"rule":"1"}`, `{"rule":"self.contains('*') == false"}`,
	`{"rule":"self == selfType{}"}`, `{"rule":"selfType{a: 'x'}.a == 'x'"}`, `{"rule":"self == @selfType{}"}`, `{"rule":"true","message":"  "}`, `{"rule":"true","messageExpression":"  "}`, `{"rule":"self.all(x, x.size() < 5)"}`, `{"rule":"self.all(k, self[k] == 'a')"}`}

// ruledSchema makes a schema from choices.
func ruledSchema(choices *[]byte, depth int) map[string]any {
	next := func(n int) int {
		if len(*choices) == 0 {
			return 0
		}
		choice := int((*choices)[0])
		*choices = (*choices)[1:]
		return choice % n
	}
	s := map[string]any{}
	kind := next(9)
	if depth == 0 && kind > 3 {
		kind %= 4
	}
	switch kind {
	case 0, 1:
		s["type"] = []string{"string", "integer"}[kind]
	case 2:
		s["x-kubernetes-int-or-string"] = true
	case 3:
		s["type"] = "string"
		s["maxLength"] = []int{3, 100000}[next(2)]
	case 4, 5:
		s["type"] = "object"
		s["properties"] = map[string]any{"a": ruledSchema(choices, depth-1), []string{"b", "metadata", "x-kubernetes-validations", "default"}[next(4)]: ruledSchema(choices, depth-1)}
	case 6:
		s["type"], s["items"] = "array", ruledSchema(choices, depth-1)
		if most := next(3); most > 0 {
			s["maxItems"] = []int{2, 100000}[most-1]
		}
		if list := next(4); list > 0 {
			s["x-kubernetes-list-type"] = []string{"atomic", "set", "map"}[list-1]
			if list == 3 {
				s["x-kubernetes-list-map-keys"] = []string{"a"}
			}
		}
	case 7:
		s["type"], s["additionalProperties"] = "object", ruledSchema(choices, depth-1)
		if next(2) == 1 {
			s["maxProperties"] = 3
		}
	case 8:
		s["x-kubernetes-preserve-unknown-fields"] = true
		s["properties"] = map[string]any{"a": ruledSchema(choices, depth-1)}
	}
	for range next(3) {
		rules, _ := s[rulesOfNode].([]any)
		s[rulesOfNode] = append(rules, json.RawMessage(ruleChoices[next(len(ruleChoices))]))
	}
	switch next(24) {
	case 1:
		s["x-kubernetes-map-type"] = "atomic"
	case 2:
		s["x-kubernetes-embedded-resource"] = true
	case 3:
		s["default"] = map[string]any{"a": "x"}
	case 4:
		s["anyOf"] = []any{map[string]any{"properties": map[string]any{"a": map[string]any{rulesOfNode: []any{map[string]any{"rule": "true"}}}}}}
	case 5:
		s["default"] = "x"
	case 6:
		s["additionalProperties"] = true
	case 7:
		s["description"] = strings.Repeat("long ", 40)
	}
	return s
}

// FuzzRuled: whatever rules were checked before, at whatever places, a definition has the same errors as by upstream.
func FuzzRuled(f *testing.F) {
	for _, seed := range []string{"", "\x04\x00\x01\x00\x00", "\x05\x06\x00\x01\x17\x02\x03\x00\x01\x06\x00\x07\x00", "\x04\x07\x00\x01\x02\x00\x01\x01\x01\x00\x04\x00\x01\x01\x00\x00",
		"\x04\x06\x06\x00\x01\x05\x02\x00\x02\x00\x01\x06\x00\x00\x06\x00\x01\x05\x00", "\x08\x04\x00\x01\x01\x00\x00\x00\x00\x00\x04\x06\x04\x00\x01\x01\x00\x03\x01\x01\x00"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, choices []byte) {
		by := newTextStrategy(t)
		for n := 0; n < 4 && (n == 0 || len(choices) > 0); n++ {
			root := map[string]any{"type": "object", "properties": map[string]any{"spec": ruledSchema(&choices, 3)}}
			if len(choices) > 0 && choices[0]%2 == 1 {
				root[rulesOfNode] = []any{json.RawMessage(ruleChoices[int(choices[0]/2)%len(ruleChoices)])}
			}
			schema, err := json.Marshal(root)
			if err != nil {
				t.Fatal(err)
			}
			validateText(t, by, string(schema))
			validateText(t, by, string(schema))
		}
	})
}

// The schemas of different versions stay different, whatever is left of them.
func TestReducedSchemasOfVersions(t *testing.T) {
	by := newTextStrategy(t)
	crd := asText(`{"type":"object","properties":{"spec":{"type":"string"}}}`)
	crd.Spec.Versions[1].Schema = asText(`{"type":"object","properties":{"spec":{"type":"string","maxLength":5}}}`).Spec.Versions[0].Schema
	short, _, complete, err := by.definitions.reduced(crd)
	if err != nil || complete || len(upstreams(short, nil)) > 0 {
		t.Errorf("complete %t, %v, %v", complete, err, upstreams(short, nil))
	}
	crd.Spec.Versions[1].Schema = crd.Spec.Versions[0].Schema
	if short, _, _, err = by.definitions.reduced(crd); err != nil || len(upstreams(short, nil)) != 1 {
		t.Errorf("%v, %v", err, upstreams(short, nil))
	}
}

// Valid rules are not compiled again at another place; only the checks that depend on the place are repeated.
func TestRulesAreLookedAtOnce(t *testing.T) {
	by := newTextStrategy(t)
	schema := func(spec string) string { return `{"type":"object","properties":{"spec":` + spec + `}}` }
	ruled := func(rule string) string {
		return `{"type":"array","maxItems":100,"items":{"type":"string","maxLength":20},"x-kubernetes-validations":[{"rule":"` + rule + `"}]}`
	}
	cheap, dear, old := ruled("self.size() > 1"), ruled("self.all(x, self.exists(y, x == y))"), ruled("self == oldSelf")
	for i, place := range []struct {
		spec     string
		valid    bool
		verdicts int
	}{
		{cheap, true, 1},
		{`{"type":"array","items":` + cheap + `}`, true, 1},
		{`{"type":"object","properties":{"a":` + dear + `,"b":` + cheap + `}}`, true, 2},
		{`{"type":"array","maxItems":2,"items":` + dear + `}`, true, 2},
		{`{"type":"array","items":` + dear + `}`, false, 2},
		{`{"type":"object","properties":{"a":` + old + `}}`, true, 3},
		{`{"type":"object","x-kubernetes-map-type":"atomic","properties":{"a":` + old + `}}`, true, 3},
		{`{"type":"object","maxProperties":3,"additionalProperties":` + old + `}`, true, 3},
		{`{"type":"array","maxItems":2,"items":` + old + `}`, false, 3},
		{`{"type":"object","properties":{"b":{"type":"string"}},"x-kubernetes-validations":[{"rule":"self == selfType{}"}]}`, false, 3},
		{`{"type":"object","properties":{"a":{"type":"object","default":{"b":["x"]},"properties":{"b":` + cheap + `}}}}`, false, 3},
		{`{"type":"object","properties":{"a":{"type":"object","default":{"b":["x","y"]},"properties":{"b":` + cheap + `}}}}`, true, 4},
		{`{"type":"object","properties":{"a":{"type":"array","items":{"x-kubernetes-preserve-unknown-fields":true,"properties":{"b":` + cheap + `}}}},"x-kubernetes-validations":[{"rule":"true"}]}`, false, 4},
		{`{"type":"object","x-kubernetes-embedded-resource":true,"properties":{"metadata":{"type":"object","properties":{"name":{"type":"string","x-kubernetes-validations":[{"rule":"self == 'a'"}]}}}}}`, true, 4},
	} {
		if valid := validateText(t, by, schema(place.spec)); valid != place.valid {
			t.Errorf("%d. valid %t, in %s", i, valid, place.spec)
		}
		if n := len(by.definitions.verdicts.values); n != place.verdicts {
			t.Errorf("%d. there are %d verdicts after %s", i, n, place.spec)
		}
	}
}

// The total cost of rules has a limit, which many rules may exceed that are valid one by one.
func TestRulesHaveALimitTogether(t *testing.T) {
	by := newTextStrategy(t)
	many := func(n int) string {
		fields := make([]string, n)
		for i := range fields {
			fields[i] = fmt.Sprintf(`"f%d":{"type":"array","maxItems":30,"items":{"type":"array","maxItems":110,"items":{"type":"string","maxLength":20},"x-kubernetes-validations":[{"rule":"self.all(x, self.exists(y, x == y))"}]}}`, i)
		}
		return `{"type":"object","properties":{"spec":{"type":"object","properties":{` + strings.Join(fields, ",") + `}}}}`
	}
	valid, refused := 0, 0
	for _, n := range []int{1, 5, 10, 20, 40, 80} {
		if validateText(t, by, many(n)) {
			valid++
		} else {
			refused++
		}
	}
	if valid == 0 || refused == 0 || len(by.definitions.verdicts.values) != 1 {
		t.Errorf("%d valid, %d refused, %d verdicts", valid, refused, len(by.definitions.verdicts.values))
	}
}

// The rules of published definitions have the costs that upstream computes.
func TestCostsOfRulesAreUpstreams(t *testing.T) {
	published, err := harness.Published(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var compare func(s *structuralschema.Structural, root bool)
	rules, looks := 0, 0
	compare = func(s *structuralschema.Structural, root bool) {
		if s == nil {
			return
		}
		if len(s.XValidations) > 0 {
			rules += len(s.XValidations)
			var ours, upstreams verdict
			if got, want := ours.ofRules(s, root), upstreams.byUpstream(s, model.SchemaDeclType(s, root || s.XEmbeddedResource)); ours != upstreams || got != want {
				t.Errorf("%v: %+v, %t, want %+v, %t", s.XValidations, ours, got, upstreams, want)
			}
			if ours.old {
				looks++
			}
		}
		compare(s.Items, false)
		if s.AdditionalProperties != nil {
			compare(s.AdditionalProperties.Structural, false)
		}
		for _, property := range s.Properties {
			compare(&property, false)
		}
	}
	for _, crd := range published {
		for _, v := range crd.Spec.Versions {
			text, err := json.Marshal(v.Schema.OpenAPIV3Schema)
			if err != nil {
				t.Fatal(err)
			}
			props, err := readProps(string(text))
			if err != nil {
				t.Fatal(err)
			}
			s, err := structuralschema.NewStructural(props)
			if err != nil {
				t.Fatal(err)
			}
			compare(s, true)
		}
	}
	if rules < 500 || looks == 0 {
		t.Errorf("%d rules, of which %d look at the old value", rules, looks)
	}
}

// Rules that apply to a default stay, and others need not be compiled.
func TestRulesForValues(t *testing.T) {
	props, err := readProps(`{"type":"object","x-kubernetes-validations":[{"rule":"1"}],"properties":{
		"a":{"type":"string","x-kubernetes-validations":[{"rule":"2"}]},"b":{"type":"string","x-kubernetes-validations":[{"rule":"3"}]},
		"c":{"type":"array","items":{"type":"object","properties":{"d":{"type":"string","x-kubernetes-validations":[{"rule":"4"}]},"e":{"type":"string","x-kubernetes-validations":[{"rule":"5"}]},"f":{"type":"string","x-kubernetes-validations":[{"rule":"6"}]}}}},
		"g":{"type":"object","additionalProperties":{"type":"string","x-kubernetes-validations":[{"rule":"7"}]}},"h":{"type":"object","additionalProperties":{"type":"string","x-kubernetes-validations":[{"rule":"8"}]}}}}`)
	if err != nil {
		t.Fatal(err)
	}
	s, err := structuralschema.NewStructural(props)
	if err != nil {
		t.Fatal(err)
	}
	before := s.DeepCopy()
	got := withRulesFor(s, []any{map[string]any{"a": nil, "c": []any{map[string]any{"d": ""}, map[string]any{"e": ""}}, "g": map[string]any{"x": ""}, "h": map[string]any{}}})
	rules := func(s *structuralschema.Structural) string {
		text, err := json.Marshal(s.ToKubeOpenAPI())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(slices.Sorted(slices.Values(regexp.MustCompile(`"rule":"\d"`).FindAllString(string(text), -1))), " ")
	}
	if got, want := rules(got), `"rule":"1" "rule":"2" "rule":"4" "rule":"5" "rule":"7"`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if rules(s) != rules(before) {
		t.Errorf("of the schema is left %s", rules(s))
	}
}
