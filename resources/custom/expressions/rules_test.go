package expressions

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

func structuralOf(t testing.TB, text string) *structuralschema.Structural {
	t.Helper()
	var props apiextensionsv1.JSONSchemaProps
	if err := json.Unmarshal([]byte(text), &props); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&props, &internal, nil); err != nil {
		t.Fatal(err)
	}
	s, err := structuralschema.NewStructural(&internal)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// tally counts the cases that could be compared.
type tally struct {
	rules, covered  int // rules that upstream compiles, and the covered ones among them
	valid, held     int // objects that satisfy a covered rule, by upstream and by the closures
	costs, counteds int64
}

// compare makes a rule and objects from bytes, and compares the closures with upstream.
func compare(t testing.TB, data []byte, sum *tally) {
	g := &generator{data: data}
	text, rule := g.definition()
	s := structuralOf(t, text)
	upstream := cel.NewValidator(s, true, celconfig.PerCallLimit)
	ours := ofPart(t, text, s)
	if len(compileErrors(upstream)) > 0 {
		if ours != nil {
			t.Errorf("%s compiles, which upstream refuses: %v", rule, compileErrors(upstream))
		}
		return
	}
	sum.rules++
	if ours == nil {
		return
	}
	sum.covered++
	for range 6 {
		object, old := g.object(), g.object()
		if g.below(3) == 0 {
			old = nil
		}
		one, two := apiruntime.DeepCopyJSON(object), apiruntime.DeepCopyJSON(old)
		var before any
		if old != nil {
			before = old
		}
		errs, left := upstream.Validate(context.Background(), nil, nil, object, before, celconfig.RuntimeCELCostBudget)
		cost, holds := ours.Hold(t.Context(), one, two)
		if holds && len(errs) > 0 {
			show, _ := json.Marshal([]any{object, old})
			t.Errorf("%s: taken for true, which upstream refuses: %v\n%s", rule, errs, show)
		}
		if spent := celconfig.RuntimeCELCostBudget - left; holds && cost < spent {
			t.Errorf("%s: costs %d, and we count %d", rule, spent, cost)
		} else if holds {
			sum.costs, sum.counteds = sum.costs+spent, sum.counteds+cost
		}
		if len(errs) == 0 {
			sum.valid++
			if holds {
				sum.held++
			}
		}
		if before, after := must(json.Marshal([]any{object, old})), must(json.Marshal([]any{one, two})); string(before) != string(after) {
			t.Errorf("%s was changed into %s", before, after)
		}
	}
}

// ofPart compiles the part of a schema, which has the same rules as the whole.
func ofPart(t testing.TB, text string, whole *structuralschema.Structural) *Rules {
	t.Helper()
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(text)); err != nil {
		t.Fatal(err)
	}
	short, ok := Part(compact.Bytes())
	if !ok {
		t.Errorf("%s cannot be read", text)
	}
	part, want := Compile(structuralOf(t, string(short))), Compile(whole)
	if (part == nil) != (want == nil) || want != nil && (part.Covered != want.Covered || !reflect.DeepEqual(part.Rest(whole), want.Rest(whole))) {
		t.Errorf("of %s: %+v, of the whole, %s: %+v", short, part, text, want)
	}
	return part
}

func must(text []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return text
}

// compileErrors are the errors for an object that has every field: rules are evaluated in all places then.
func compileErrors(v *cel.Validator) []string {
	full := (&generator{data: slices.Repeat([]byte{2}, 400)}).object()
	errs, _ := v.Validate(context.Background(), nil, nil, full, full, celconfig.RuntimeCELCostBudget)
	var all []string
	for _, err := range errs {
		if detail := err.Error(); strings.Contains(detail, "rule compile error") {
			all = append(all, detail)
		}
	}
	return all
}

func randomBytes(r *rand.Rand) []byte {
	data := make([]byte, 900)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}

func FuzzAgreesWithUpstream(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		f.Add(randomBytes(r))
	}
	f.Fuzz(func(t *testing.T, data []byte) { compare(t, data, &tally{}) })
}

// A rule that holds by the closures holds by upstream, and costs no more there; and most rules that hold there hold by
// the closures.
func TestAgreesWithUpstream(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var sum tally
	for range 400 {
		compare(t, randomBytes(r), &sum)
	}
	if sum.covered*10 < sum.rules*7 || sum.rules < 300 || sum.held*10 < sum.valid*8 || sum.valid < 800 || sum.counteds > 4*sum.costs {
		t.Errorf("too little is covered, or too much is counted: %+v", sum)
	}
	t.Logf("%+v", sum)
}

// Rules are evaluated as long as the request goes on: a loop ends with it, and no further rule begins.
func TestRulesEndWithTheRequest(t *testing.T) {
	rules := Compile(structuralOf(t, `{"type":"object","properties":{"s":{"type":"string"},"l":{"type":"array","maxItems":100000,"items":{"type":"integer"}}},
		"x-kubernetes-validations":[{"rule":"self.l.all(x, size(self.s) >= 0)"}]}`))
	object := map[string]any{"s": "a", "l": slices.Repeat([]any{int64(1)}, 90000)}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, ok := rules.Hold(t.Context(), object, nil); !ok {
		t.Error("the rule does not hold")
	}
	if _, ok := rules.Hold(ended, object, nil); ok {
		t.Error("the rule is evaluated although the request is over")
	}
	f := frame{limit: celconfig.PerCallLimit, done: ended.Done()}
	f.variables[self] = object
	if _, ok := rules.root.rules[0].eval(&f); ok || f.turns != celconfig.CheckFrequency {
		t.Errorf("the loop has %d iterations after the end of the request", f.turns)
	}
}
