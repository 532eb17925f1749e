package plan

import "fmt"

// generator makes schemas, and objects that more or less fit them, from a fuzzer's bytes.
type generator struct{ data []byte }

// below draws a number. It is 0 when no bytes are left.
func (g *generator) below(n int) int {
	if len(g.data) == 0 {
		return 0
	}
	drawn := int(g.data[0])
	g.data = g.data[1:]
	return drawn % n
}

func (g *generator) oneIn(n int) bool { return g.below(n) == n-1 }

var names = []string{"a", "b", "c", "kind", "metadata"}

func pick[T any](g *generator, of ...T) T { return of[g.below(len(of))] }

// object makes the schema of an object.
func (g *generator) object(depth int) map[string]any {
	s := map[string]any{"type": "object"}
	if g.oneIn(4) {
		s["additionalProperties"] = g.schema(depth - 1)
	} else {
		properties := map[string]any{}
		for range 1 + g.below(3) {
			properties[pick(g, names...)] = g.schema(depth - 1)
		}
		s["properties"] = properties
		if g.oneIn(3) {
			s["required"] = []any{pick(g, names...)}
		}
	}
	if g.oneIn(6) {
		s["x-kubernetes-preserve-unknown-fields"] = true
		s["x-kubernetes-embedded-resource"] = g.oneIn(3)
	}
	g.limit(s, "minProperties", "maxProperties")
	return s
}

// schema makes any schema.
func (g *generator) schema(depth int) map[string]any {
	var s map[string]any
	kind := g.below(8)
	switch {
	case depth > 0 && kind < 3:
		s = g.object(depth)
	case depth > 0 && kind == 3:
		s = g.list(depth)
	case kind == 4:
		s = map[string]any{"type": pick(g, "integer", "number")}
		g.numbers(s)
	case kind == 5:
		s = map[string]any{"type": "boolean"}
	case kind == 6:
		s = map[string]any{"x-kubernetes-int-or-string": true}
		if g.oneIn(2) {
			s["anyOf"] = []any{map[string]any{"type": "integer"}, map[string]any{"type": "string"}}
			g.numbers(s)
		}
	default:
		s = map[string]any{"type": "string"}
		g.texts(s)
	}
	if g.oneIn(8) {
		s["nullable"] = true
	}
	if g.oneIn(6) {
		s["default"] = g.valueOf(s, depth)
	}
	if g.oneIn(12) {
		s["x-kubernetes-preserve-unknown-fields"] = true
	}
	if g.oneIn(8) {
		switch junctor := pick(g, "allOf", "anyOf", "oneOf", "not"); {
		case junctor == "not":
			s["not"] = g.nested(depth)
		case s["anyOf"] == nil || junctor != "anyOf":
			s[junctor] = []any{g.nested(depth), g.nested(depth)}
		}
	}
	return s
}

func (g *generator) list(depth int) map[string]any {
	s := map[string]any{"type": "array", "items": g.schema(depth - 1)}
	switch g.below(4) {
	case 0:
		s["x-kubernetes-list-type"] = "set"
	case 1:
		s["items"] = g.object(depth - 1)
		s["x-kubernetes-list-type"] = "map"
		s["x-kubernetes-list-map-keys"] = []any{"a", "b"}[:1+g.below(2)]
	}
	g.limit(s, "minItems", "maxItems")
	return s
}

// nested makes a schema of value rules only.
func (g *generator) nested(depth int) map[string]any {
	s := map[string]any{}
	switch g.below(5) {
	case 0:
		s["required"] = []any{pick(g, names...)}
	case 1:
		g.texts(s)
	case 2:
		g.numbers(s)
	case 3:
		s["enum"] = []any{pick[any](g, "a", "b", 1, 1.5, true, nil)}
	case 4:
		if depth > 0 {
			s["properties"] = map[string]any{pick(g, names...): g.nested(depth - 1)}
		}
	}
	return s
}

func (g *generator) texts(s map[string]any) {
	switch g.below(5) {
	case 0:
		s["pattern"] = pick(g, "^a", "b$", "^.?$")
	case 1:
		s["enum"] = []any{"a", pick[any](g, "b", "", 1, nil)}
	case 2:
		s["format"] = pick(g, "date-time", "ipv4", "int32", "nobody", "byte", "k8s-short-name")
	}
	g.limit(s, "minLength", "maxLength")
}

func (g *generator) numbers(s map[string]any) {
	switch g.below(6) {
	case 0:
		s["minimum"] = pick[any](g, 0, 1, 1.5, -1.5, 1e10)
		s["exclusiveMinimum"] = g.oneIn(2)
	case 1:
		s["maximum"] = pick[any](g, 0, 1, 1.5, -1.5, 1e10)
		s["exclusiveMaximum"] = g.oneIn(2)
	case 2:
		s["format"] = pick(g, "int32", "int64", "float", "double")
	case 3:
		s["enum"] = []any{1, pick[any](g, 2, 1.5, "a")}
	case 4:
		s["multipleOf"] = pick[any](g, 2, 0.5)
	}
}

func (g *generator) limit(s map[string]any, least, most string) {
	if g.oneIn(6) {
		s[least] = g.below(3)
	}
	if g.oneIn(6) {
		s[most] = g.below(4)
	}
}

// valueOf makes a value that has a chance to fit a schema.
func (g *generator) valueOf(s map[string]any, depth int) any {
	if g.oneIn(12) {
		return g.any(depth)
	}
	if of, ok := s["enum"].([]any); ok && g.below(2) == 0 {
		return plain(pick(g, of...))
	}
	switch s["type"] {
	case "object":
		return g.fields(s, depth)
	case "array":
		list := []any{}
		items, _ := s["items"].(map[string]any)
		for range g.below(4) {
			list = append(list, g.valueOf(items, depth-1))
		}
		return list
	case "integer":
		return pick[any](g, int64(0), int64(1), int64(2), int64(1)<<40)
	case "number":
		return pick[any](g, int64(1), 1.5, 1.0, -2.25)
	case "boolean":
		return g.oneIn(2)
	case "string":
		return pick(g, "a", "b", "", "ä", "ab", "1.2.3.4", "2026-05-04T10:20:30Z")
	}
	return g.any(depth)
}

func (g *generator) fields(s map[string]any, depth int) map[string]any {
	object := map[string]any{}
	properties, _ := s["properties"].(map[string]any)
	for _, name := range names {
		if property, ok := properties[name].(map[string]any); ok && g.below(4) > 0 {
			object[name] = g.valueOf(property, depth-1)
		}
	}
	entry, open := s["additionalProperties"].(map[string]any)
	for i := range g.below(3) {
		switch {
		case open:
			object[fmt.Sprint("k", i)] = g.valueOf(entry, depth-1)
		case g.oneIn(6):
			object[pick(g, append(names, "apiVersion", "junk")...)] = g.any(depth - 1)
		}
	}
	return object
}

func (g *generator) any(depth int) any {
	if depth > 0 && g.oneIn(3) {
		return map[string]any{pick(g, names...): g.any(depth - 1)}
	}
	if depth > 0 && g.oneIn(4) {
		return []any{g.any(depth - 1), g.any(depth - 1)}
	}
	return pick[any](g, nil, "a", int64(1), int64(97), 1.0, 1.5, true, "b")
}

// plain converts a value to the Go types of decoded JSON.
func plain(v any) any {
	if i, ok := v.(int); ok {
		return int64(i)
	}
	return v
}
