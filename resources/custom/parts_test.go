package custom

import (
	"strings"
	"testing"
)

// A known part of a schema is left out of the schema for validation, unless its place needs special checks.
func TestReduced(t *testing.T) {
	long := `"properties":{"a":{"type":"string","description":"` + strings.Repeat("long ", 40) + `","not":{"enum":["x"]}}}` // not plain
	part := `{"type":"object",` + long + `}`
	var known seen
	first := `{"type":"object","properties":{"spec":` + part + `}}`
	r := newReducer(&known, &seen{})
	short, ok := r.reduced(first)
	if !ok || short != first || len(r.met) != 1 {
		t.Fatalf("%s, %d parts, %t", short, len(r.met), ok)
	}
	for part := range r.met {
		known.Add(part)
	}
	inMap := func(key string) string {
		return `{"type":"object","properties":{"other":{"type":"array","items":{"type":"object","properties":{"b":` + part + `,"k":{"type":"string"}},"required":["k"]},` +
			`"x-kubernetes-list-map-keys":["` + key + `"],"x-kubernetes-list-type":"map"}}}`
	}
	for text, is := range map[string]bool{
		first: true,
		`{"type":"object","properties":{"other":{"type":"array","items":` + part + `}}}`:                                                                   true,
		`{"type":"object","properties":{"other":{"type":"object","additionalProperties":` + part + `}}}`:                                                   true,
		`{"type":"object","properties":{"other":{"type":"array","items":` + part + `,"x-kubernetes-list-type":"atomic"}}}`:                                 true,
		`{"type":"object","properties":{"other":{"type":"array","items":` + part + `,"x-kubernetes-list-type":"set"}}}`:                                    false,
		`{"type":"object","properties":{"other":{"type":"array","items":` + part + `,"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["a"]}}}`: false,
		`{"type":"object","properties":{"other":{"type":"array","items":` + part + `,"x-kubernetes-list-map-keys":["a"]}}}`:                                false,
		inMap("k"): true,
		inMap("b"): false,
		`{"type":"object","properties":{"other":{"type":"object","default":{},"properties":{"a":` + part + `}}}}`:                                                                                            false,
		`{"type":"object","properties":{"other":{"type":"object","anyOf":[{}],"properties":{"a":` + part + `}}}}`:                                                                                            false,
		`{"type":"object","properties":{"other":{"type":"object","properties":{"a":` + part + `},"x-kubernetes-validations":[{"rule":"true"}]}}}`:                                                            true,
		`{"type":"object","properties":{"other":{"type":"object","properties":{"a":` + part + `},"x-kubernetes-validations":[{"rule":"true"}],"anyOf":[{}]}}}`:                                               false,
		`{"type":"object","properties":{"metadata":{"type":"object","x-kubernetes-validations":[]},"other":{"type":"object","properties":{"a":` + part + `},"x-kubernetes-validations":[{"rule":"true"}]}}}`: false,
		`{"type":"object","properties":{"other":{"type":"object","properties":{"metadata":` + part + `},"x-kubernetes-embedded-resource":true}}}`:                                                            false,
		`{"type":"object","properties":{"metadata":` + part + `}}`:                                                                                                                                           false,
		`{"type":"object","properties":{"other":{"type":"object","properties":{"metadata":` + part + `}}}}`:                                                                                                  true,
		`{"type":"object",` + long + `}`:                                         false,
		`{"type":"object","properties":{"other":{"type":"array",` + long + `}}}`: false,
	} {
		short, ok := newReducer(&known, &seen{}).reduced(text)
		if got := !strings.Contains(short, "long long"); got != is || !ok || strings.Count(short, "{") != strings.Count(short, "}") {
			t.Errorf("of %s\nremains %s, %t", text, short, ok)
		}
	}
}

// A part with a default below additionalProperties, which validation skips, becomes known only together with its
// surroundings.
func TestUnlookedDefaults(t *testing.T) {
	part := `{"type":"object","properties":{"a":{"type":"string","default":1,"description":"` + strings.Repeat("long ", 40) + `"}}}`
	unlooked := `{"type":"object","additionalProperties":` + part + `}`
	r := newReducer(&seen{}, &seen{})
	if _, ok := r.reduced(`{"type":"object","properties":{"a":` + unlooked + `}}`); !ok || len(r.met) != 1 {
		t.Errorf("%d parts, %t", len(r.met), ok)
	}
	if short, ok := r.reduced(`{"type":"object","properties":{"b":` + part + `}}`); !ok || !strings.Contains(short, "long long") {
		t.Errorf("nobody looks at the default in %s, %t", short, ok)
	}
}

// A part that occurs twice in a definition is validated once, in whichever of its schemas.
func TestPartsThatADefinitionHasAgain(t *testing.T) {
	part := `{"type":"object","properties":{"a":{"type":"string","description":"` + strings.Repeat("long ", 40) + `","not":{"enum":["x"]}}}}`
	r := newReducer(&seen{}, &seen{})
	first, ok := r.reduced(`{"type":"object","properties":{"a":{"type":"array","items":` + part + `},"b":` + part + `}}`)
	if !ok || strings.Count(first, "long long") == 0 || strings.Count(first, `"properties":{"a":{"type":"string"`) != 1 {
		t.Errorf("of the first remains %s, %t", first, ok)
	}
	if second, ok := r.reduced(`{"type":"object","properties":{"c":` + part + `}}`); !ok || strings.Contains(second, "long long") {
		t.Errorf("of the second remains %s, %t", second, ok)
	}
}
