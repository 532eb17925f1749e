package custom

import (
	"strings"
	"testing"
)

// What is known of a schema is not in what is validated of it, unless something looks at it there.
func TestReduced(t *testing.T) {
	long := `"properties":{"a":{"type":"string","description":"` + strings.Repeat("long ", 40) + `"}}`
	part := `{"type":"object",` + long + `}`
	var known seen
	first := `{"type":"object","properties":{"spec":` + part + `}}`
	short, parts, ok := reduced(first, &known)
	if !ok || short != first || len(parts) != 1 {
		t.Fatalf("%s, %d parts, %t", short, len(parts), ok)
	}
	known.AddAll(parts)
	for text, is := range map[string]bool{
		first: true,
		`{"type":"object","properties":{"other":{"type":"array","items":` + part + `}}}`:                                                          true,
		`{"type":"object","properties":{"other":{"type":"object","additionalProperties":` + part + `}}}`:                                          true,
		`{"type":"object","properties":{"other":{"type":"array","items":` + part + `,"x-kubernetes-list-type":"atomic"}}}`:                        true,
		`{"type":"object","properties":{"other":{"type":"array","items":` + part + `,"x-kubernetes-list-type":"set"}}}`:                           false,
		`{"type":"object","properties":{"other":{"type":"object","default":{},"properties":{"a":` + part + `}}}}`:                                 false,
		`{"type":"object","properties":{"other":{"type":"object","anyOf":[{}],"properties":{"a":` + part + `}}}}`:                                 false,
		`{"type":"object","properties":{"other":{"type":"object","properties":{"a":` + part + `},"x-kubernetes-validations":[{"rule":"true"}]}}}`: false,
		`{"type":"object","properties":{"other":{"type":"object","properties":{"metadata":` + part + `},"x-kubernetes-embedded-resource":true}}}`: false,
		`{"type":"object","properties":{"metadata":` + part + `}}`:                                                                                false,
		`{"type":"object","properties":{"other":{"type":"object","properties":{"metadata":` + part + `}}}}`:                                       true,
		`{"type":"object",` + long + `}`:                                         false,
		`{"type":"object","properties":{"other":{"type":"array",` + long + `}}}`: false,
	} {
		short, _, ok := reduced(text, &known)
		if got := !strings.Contains(short, "long long"); got != is || !ok || strings.Count(short, "{") != strings.Count(short, "}") {
			t.Errorf("of %s\nremains %s, %t", text, short, ok)
		}
	}
}

// A default that nobody has looked at makes the part around it known, where nobody looks at it either, and not its own.
func TestUnlookedDefaults(t *testing.T) {
	part := `{"type":"object","properties":{"a":{"type":"string","default":1,"description":"` + strings.Repeat("long ", 40) + `"}}}`
	var none seen
	if _, parts, ok := reduced(`{"type":"object","properties":{"a":{"type":"object","additionalProperties":`+part+`}}}`, &none); !ok || len(parts) != 1 {
		t.Errorf("%d parts, %t", len(parts), ok)
	}
}
