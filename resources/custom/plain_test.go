package custom

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/rowlock/rowlock/resources/jsonscan"
)

// isPlain reports whether the field spec of a schema is plain.
func isPlain(t *testing.T, spec string) bool {
	t.Helper()
	index, ok := jsonscan.NewIndex(spec)
	if !ok {
		t.Fatalf("%s cannot be read", spec)
	}
	p := plainParts{index: index, patterns: &seen{}, others: map[jsonscan.Span]bool{}}
	return p.look(index.Whole()) && p.has(index.Whole())
}

// Plain schemas are valid, and some schemas that are not plain are valid too.
func TestPlain(t *testing.T) {
	by := newTextStrategy(t)
	for _, c := range []struct {
		spec         string
		plain, valid bool
	}{
		{`{"type":"object","properties":{"a":{"type":"string","format":"date-time"},"b":{"type":"array","items":{"type":"integer","format":"int64","minimum":1}}}}`, true, true},
		{`{"type":"object","additionalProperties":{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string"}],"pattern":"^a+$"}}`, true, true},
		{`{"type":"object","additionalProperties":{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"string"},{"type":"integer"}]}}`, false, false},
		{`{"type":"string","format":"nosuch"}`, false, true},
		{`{"type":"string","pattern":"("}`, false, false},
		{`{"type":"string","pattern":"\\"}`, false, false},
		{`{"type":"array"}`, false, false},
		{`{"type":"nosuch"}`, false, false},
		{`{}`, false, false},
		{`{"x-kubernetes-preserve-unknown-fields":true}`, true, true},
		{`{"x-kubernetes-preserve-unknown-fields":false}`, false, false},
		{`{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`, false, false},
		{`{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":{"type":"string"}}`, false, false},
		{`{"type":"array","uniqueItems":true,"items":{"type":"string"}}`, false, false},
		{`{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}}`, true, true},
		{`{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string","nullable":true}}`, false, false},
		{`{"type":"array","x-kubernetes-list-type":"set","items":{"type":"object","x-kubernetes-map-type":"atomic"}}`, false, true},
		{`{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"}}}}`, true, true},
		{`{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","properties":{"k":{"type":"string","default":""}}}}`, true, true},
		{`{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","properties":{"k":{"type":"string"}}}}`, false, false},
		{`{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k","k"],"items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"}}}}`, false, false},
		{`{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","required":["k"],"properties":{"k":{"type":"object"}}}}`, false, false},
		{`{"type":"array","x-kubernetes-list-type":"map","items":{"type":"object"}}`, false, false},
		{`{"type":"array","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"}}}}`, false, false},
		{`{"type":"object","x-kubernetes-map-type":"nosuch"}`, false, false},
		{`{"type":"string","enum":["a","b"],"default":"a"}`, true, true},
		{`{"type":"string","enum":["a","b"],"default":"c"}`, false, false},
		{`{"type":"integer","minimum":3,"default":2}`, false, false},
		{`{"type":"integer","minimum":2,"default":2}`, true, true},
		{`{"type":"integer","default":"2"}`, false, false},
		{`{"type":"integer","default":1,"minimum":5,"minLength":0}`, false, false},
		{`{"type":"integer","default":1,"minimum":5,"minProperties":0}`, false, false},
		{`{"type":"object","required":["a"],"default":{},"properties":{"a":{"type":"string"}}}`, false, false},
		{`{"type":"object","default":{},"properties":{"a":{"type":"string","oneOf":[{"enum":["x"]}]}}}`, false, true},
		{`{"type":"object","x-kubernetes-embedded-resource":true}`, false, false},
		{`{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true,"default":{"apiVersion":"v1","kind":"A","metadata":{"name":"a","x":"b"}}}`, false, true},
		{`{"type":"string","not":{"enum":["a"]},"x-kubernetes-list-map-keys":["a"],"x-kubernetes-validations":[{"rule":"true"}]}`, false, false},
	} {
		if plain := isPlain(t, c.spec); plain != c.plain {
			t.Errorf("plain %t: %s", plain, c.spec)
		}
		if valid := validateText(t, by, `{"type":"object","properties":{"spec":`+c.spec+`}}`); valid != c.valid {
			t.Errorf("valid %t: %s", valid, c.spec)
		}
	}
}

// plainWords are the possible members of a schema, as JSON.
var plainWords = map[string][]string{
	"type":    {`"object"`, `"array"`, `"string"`, `"integer"`, `"number"`, `"boolean"`, `"null"`, `""`},
	"format":  {`"date-time"`, `"int32"`, `"nosuch"`, `"double"`, `"int\u0036\u0034"`, `""`},
	"pattern": {`"^a*$"`, `"("`, `"\\("`, `"(?!a)"`, `""`}, "title": {`"t"`}, "description": {`"d"`, `"é"`},
	"default": {`"a"`, `""`, `1`, `5`, `-1`, `1.5`, `true`, `{}`, `[]`, `{"a":"a"}`, `["a"]`, `99999999999`,
		`{"metadata":{"name":"a","x":"b"}}`, `{"kind":"A","apiVersion":"v1","metadata":{"labels":{"a":"b"},"x":1},"a":"a"}`, `{"a":{"metadata":{"x":1}}}`}, "enum": {`["a","b"]`, `[1,2]`, `[true]`, `[{}]`, `["b"]`},
	"required": {`["a"]`, `["b"]`, `["a","a"]`}, "minimum": {`1`, `-2`, `1.5`, `5`}, "maximum": {`1`}, "exclusiveMinimum": {`true`}, "minLength": {`1`, `0`, `-1`}, "maxLength": {`0`, `-3`, `5`},
	"minItems": {`1`, `0`}, "maxItems": {`0`, `7`}, "minProperties": {`1`, `0`}, "maxProperties": {`0`}, "multipleOf": {`2`, `0`}, "nullable": {`true`}, "uniqueItems": {`true`},
	"anyOf": {`[{"type":"integer"},{"type":"string"}]`, `[{"minimum":1}]`, `[{"type":"string"}]`},
	"allOf": {`[{"anyOf":[{"type":"integer"},{"type":"string"}]},{"pattern":"a"}]`}, "oneOf": {`[{"required":["a"]}]`}, "not": {`{"enum":["a"]}`},
	"additionalProperties": {`true`, `false`}, "externalDocs": {`{"url":"u"}`}, "example": {`1`}, "$ref": {`"a"`},
	"x-kubernetes-int-or-string": {`true`}, "x-kubernetes-preserve-unknown-fields": {`true`, `false`}, "x-kubernetes-embedded-resource": {`true`},
	"x-kubernetes-list-type": {`"atomic"`, `"set"`, `"map"`, `"nosuch"`}, "x-kubernetes-list-map-keys": {`["a"]`, `["b"]`, `["a","b"]`, `["a","a"]`, `[]`},
	"x-kubernetes-map-type": {`"atomic"`, `"granular"`, `"nosuch"`}, rulesOfNode: {`[{"rule":"true"}]`, `[{"rule":"1"}]`},
}

// plainSchema makes a schema from choices: likely members first, and some others.
func plainSchema(choices *[]byte, depth int) map[string]any {
	next := func(n int) int {
		if len(*choices) == 0 {
			return 0
		}
		choice := int((*choices)[0])
		*choices = (*choices)[1:]
		return choice % n
	}
	s := map[string]any{"type": json.RawMessage(plainWords["type"][next(7)])}
	if kind := string(s["type"].(json.RawMessage)); depth > 0 {
		switch below := next(4); {
		case kind == `"array"` && below < 3:
			s["items"] = plainSchema(choices, depth-1)
		case kind == `"object"` && below < 2:
			s["properties"] = map[string]any{"a": plainSchema(choices, depth-1), []string{"b", "metadata", "default", "x"}[next(4)]: plainSchema(choices, depth-1)}
		case kind == `"object"` && below == 2:
			s["additionalProperties"] = plainSchema(choices, depth-1)
		}
	}
	names := slices.Sorted(maps.Keys(plainWords))
	for range next(5) {
		name := names[next(len(names))]
		values := plainWords[name]
		s[name] = json.RawMessage(values[next(len(values))])
	}
	return s
}

// FuzzPlain: a definition has the same errors and the same warnings as by upstream, whatever parts of it are plain.
func FuzzPlain(f *testing.F) {
	for _, seed := range []string{"", "\x00\x00\x02\x00\x00\x01\x00\x00\x00", "\x01\x00\x00\x00\x03\x21\x02\x20\x00\x1c\x00", "\x02\x00\x03\x05\x00\x06\x01", "\x00\x02\x02\x00\x01\x17\x00\x00"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, choices []byte) {
		by := newTextStrategy(t)
		for n := 0; n < 8 && (n == 0 || len(choices) > 0); n++ {
			root := map[string]any{"type": "object", "properties": map[string]any{"spec": plainSchema(&choices, 2)}}
			if values := plainWords["default"]; len(choices) > 0 && int(choices[0]) < len(values) {
				root["default"] = json.RawMessage(values[choices[0]])
			}
			schema, err := json.Marshal(root)
			if err != nil {
				t.Fatal(err)
			}
			// Its stored form is the server's, or the schema is not covered.
			if text, ok := canonicalSchema(nil, schema); ok {
				validateText(t, by, string(text))
			}
		}
	})
}
