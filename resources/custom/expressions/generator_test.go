package expressions

import (
	"fmt"
	"slices"
	"strings"
)

// generator makes rules and objects from bytes.
type generator struct {
	data []byte
	// texts and items are the variables in scope that are texts, and those that are items of the list of objects.
	texts, items []string
	folds        int
}

func (g *generator) below(n int) int {
	if len(g.data) == 0 {
		return 0
	}
	b := g.data[0]
	g.data = g.data[1:]
	return int(b) % n
}

func pick[T any](g *generator, of ...T) T { return of[g.below(len(of))] }

// schema is the schema for the rules. TEXT, OBJECT, LIST, ITEM and ROOT stand for the rules at these places.
const schema = `{"type":"object","x-kubernetes-validations":[ROOT],"properties":{"spec":{"type":"object","x-kubernetes-validations":[OBJECT],"properties":{
"a":{"type":"string","x-kubernetes-validations":[TEXT]},"b":{"type":"string","nullable":true},"namespace":{"type":"string"},"a-b":{"type":"string"},
"n":{"type":"integer"},"i":{"type":"integer","format":"int32"},"f":{"type":"number"},"t":{"type":"boolean"},"x":{"x-kubernetes-int-or-string":true},
"m":{"type":"object","additionalProperties":{"type":"string","nullable":true}},"mi":{"type":"object","additionalProperties":{"type":"integer"}},
"l":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},"nl":{"type":"array","items":{"type":"integer","nullable":true}},
"any":{"type":"object","x-kubernetes-preserve-unknown-fields":true},"when":{"type":"string","format":"date-time"},
"o":{"type":"object","nullable":true,"x-kubernetes-map-type":"atomic","properties":{"p":{"type":"string"},"q":{"type":"integer"}}},
"ol":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["p","q"],"x-kubernetes-validations":[LIST],"items":{"type":"object",
"x-kubernetes-validations":[ITEM],"properties":{"p":{"type":"string","x-kubernetes-validations":[TEXT]},"q":{"type":"integer"},"of":{"type":"array","items":{"type":"string"}}}}}}}}}`

// places are the expressions for spec at the place of a rule.
var places = map[string]string{"ROOT": "self.spec", "OBJECT": "self", "LIST": "", "ITEM": "", "TEXT": ""}

// definition is the schema with a rule at a place.
func (g *generator) definition() (text, rule string) {
	place := pick(g, "ROOT", "OBJECT", "OBJECT", "OBJECT", "LIST", "ITEM", "TEXT")
	spec := places[place]
	var self string
	switch place {
	case "LIST":
		self = "self"
		g.items = nil
	case "ITEM":
		g.items = []string{"self"}
	case "TEXT":
		g.texts = []string{"self"}
	}
	if pick(g, 0, 0, 0, 1) == 1 && place != "LIST" {
		g.texts, g.items = append(g.texts, olds(g.texts)...), append(g.items, olds(g.items)...)
		if place == "OBJECT" {
			spec = pick(g, "self", "oldSelf")
		}
	}
	rule = g.truth(4, spec, self)
	text = schema
	for name := range places {
		made := ""
		if name == place {
			made = fmt.Sprintf(`{"rule":%q}`, rule)
		}
		text = strings.ReplaceAll(text, name, made)
	}
	return text, rule
}

func olds(of []string) (all []string) {
	for range of {
		all = append(all, "oldSelf")
	}
	return all
}

func (g *generator) truth(depth int, spec, list string) string {
	if depth == 0 {
		return pick(g, "true", "false", g.text(0, spec)+" != 'zz'")
	}
	sub := func() string { return g.truth(depth-1, spec, list) }
	switch g.below(16) {
	case 0, 1:
		return fmt.Sprintf("(%s && %s)", sub(), sub())
	case 2, 3:
		return fmt.Sprintf("(%s || %s)", sub(), sub())
	case 4:
		return fmt.Sprintf("!(%s)", sub())
	case 5:
		return fmt.Sprintf("(%s ? %s : %s)", sub(), sub(), sub())
	case 6, 7:
		return g.has(spec)
	case 8:
		return fmt.Sprintf("%s %s %s", g.text(depth, spec), pick(g, "==", "!=", "<", "<=", ">", ">="), g.text(depth, spec))
	case 9:
		return fmt.Sprintf("%s %s %s", g.number(depth, spec, list), pick(g, "==", "!=", "<", "<=", ">", ">="), g.number(depth, spec, list))
	case 10:
		return fmt.Sprintf("%s.%s(%s)", g.text(depth, spec), pick(g, "contains", "startsWith", "endsWith"), g.text(depth, spec))
	case 11:
		return fmt.Sprintf("%s.matches('%s')", g.text(depth, spec), pick(g, "^a", "b$", "[a-c]{1,3}", "", "ä?"))
	case 12:
		return fmt.Sprintf("%s in %s", g.text(depth, spec), pick(g, "['a','b']", "[]", g.list(depth, spec)))
	case 13:
		return g.other(spec)
	}
	return g.fold(depth, spec, list)
}

func (g *generator) has(spec string) string {
	if spec == "" {
		if len(g.items) > 0 {
			return fmt.Sprintf("has(%s.%s)", pick(g, g.items...), pick(g, "p", "q", "of"))
		}
		return "true"
	}
	return fmt.Sprintf("has(%s.%s)", spec, pick(g, "a", "b", "__namespace__", "a__dash__b", "n", "i", "f", "t", "x", "m", "m.k", "mi.k", "l", "nl", "any", "when", "o", "o.p", "ol"))
}

// other are expressions over fields that only some objects have.
func (g *generator) other(spec string) string {
	if spec == "" {
		return "duration('1s') < duration('2m')"
	}
	return strings.ReplaceAll(pick(g, "SPEC.t", "SPEC.x == 'a'", "SPEC.x == 1", "SPEC.x in ['a', 'b']", "SPEC.f < 1.5", "SPEC.f >= -1.0", "SPEC.f == 2.0", "'k' in SPEC.m",
		"SPEC.m.k == 'a'", "SPEC.m['k'] != SPEC.a", "SPEC.mi.k < 3", "SPEC.mi == SPEC.mi", "SPEC.any == SPEC.any", "SPEC.l == SPEC.l", "SPEC.n in [1, 2]", "duration(SPEC.a) < duration('1s')",
		"SPEC.a.split('a').size() < 3", "SPEC.when < timestamp('2026-01-01T00:00:00Z')", "type(SPEC.x) == string", "SPEC.n in SPEC.nl", "SPEC.o.q + SPEC.n > 3",
		"[SPEC.a, SPEC.b].exists(x, x == 'a')", "SPEC.f < SPEC.n", "SPEC == SPEC", "SPEC.b == null"), "SPEC", spec)
}

func (g *generator) text(depth int, spec string) string {
	all := append([]string{"'a'", "'b'", "''", "'ab'"}, g.texts...)
	for _, item := range g.items {
		all = append(all, item+".p")
	}
	if spec != "" {
		all = append(all, spec+".a", spec+".b", spec+".__namespace__", spec+".a__dash__b", fmt.Sprintf("(has(%[1]s.a) ? %[1]s.a : '')", spec), spec+".l[0]", spec+".ol[0].p")
	}
	of := pick(g, all...)
	if depth > 0 {
		switch g.below(12) {
		case 0:
			return of + ".lowerAscii()"
		case 1:
			return fmt.Sprintf("(%s + %s)", of, g.text(depth-1, spec))
		case 2:
			return fmt.Sprintf("%s.substring(%d)", of, g.below(3))
		case 3:
			return fmt.Sprintf("%s.substring(%d, %d)", of, g.below(2), g.below(3))
		}
	}
	return of
}

func (g *generator) number(depth int, spec, list string) string {
	all := []string{"0", "1", "-2", "9223372036854775807"}
	for _, item := range g.items {
		all = append(all, item+".q")
	}
	if spec != "" {
		all = append(all, spec+".n", spec+".i", spec+".nl[1]")
	}
	if list != "" {
		all = append(all, list+".size()")
	}
	if depth == 0 {
		return pick(g, all...)
	}
	switch g.below(6) {
	case 0:
		return fmt.Sprintf("size(%s)", g.text(depth-1, spec))
	case 1:
		return fmt.Sprintf("%s.size()", g.list(depth-1, spec))
	case 2:
		return fmt.Sprintf("(%s %s %s)", g.number(depth-1, spec, list), pick(g, "+", "-", "*"), g.number(depth-1, spec, list))
	case 3:
		return fmt.Sprintf("(%s ? 1 : 0)", g.truth(depth-1, spec, list))
	case 4:
		return fmt.Sprintf("int(%s)", g.text(depth-1, spec))
	}
	return pick(g, all...)
}

// list is a list of texts.
func (g *generator) list(depth int, spec string) string {
	all := []string{"['a', 'b']", "['b']"}
	for _, item := range g.items {
		all = append(all, item+".of")
	}
	if spec != "" {
		all = append(all, spec+".l", fmt.Sprintf("(has(%[1]s.l) ? %[1]s.l : [])", spec), fmt.Sprintf("[%s.a, 'x']", spec))
	}
	of := pick(g, all...)
	if depth > 0 && g.below(3) == 0 {
		v := g.variable()
		defer func(was []string) { g.texts = was }(slices.Clone(g.texts))
		g.texts = append(g.texts, v)
		if g.below(2) == 0 {
			return fmt.Sprintf("%s.filter(%s, %s)", of, v, g.truth(1, spec, ""))
		}
		return fmt.Sprintf("%s.map(%s, %s)", of, v, g.text(1, spec))
	}
	return of
}

func (g *generator) variable() string {
	g.folds++
	return fmt.Sprint("v", g.folds)
}

func (g *generator) fold(depth int, spec, list string) string {
	macro := pick(g, "all", "exists", "exists_one", "filter")
	end := ""
	if macro == "filter" {
		end = pick(g, ".size() <= 1", ".size() == 2")
	}
	v := g.variable()
	if spec != "" && g.below(2) == 0 {
		list = spec + ".ol"
	}
	defer func(texts, items []string) { g.texts, g.items = texts, items }(slices.Clone(g.texts), slices.Clone(g.items))
	of := list
	switch {
	case list != "":
		g.items = append(g.items, v)
	case spec != "" && g.below(3) == 0:
		of = spec + pick(g, ".m", ".mi")
		g.texts = append(g.texts, v)
	default:
		of = g.list(depth-1, spec)
		g.texts = append(g.texts, v)
	}
	return fmt.Sprintf("%s.%s(%s, %s)%s", of, macro, v, g.truth(depth-1, spec, list), end)
}

// object makes an object that usually fits the schema.
func (g *generator) object() map[string]any {
	text := func() any { return pick[any](g, "a", "b", "", "ab", "ä", "Aa", "12", "5s", "a") }
	number := func() any { return pick[any](g, int64(0), int64(1), int64(2), int64(-7), int64(1)<<62) }
	all := map[string]func() any{
		"a": text, "b": func() any { return pick(g, text(), text(), nil) }, "namespace": text, "a-b": text, "n": number, "i": number,
		"f": func() any { return pick[any](g, 1.5, int64(1), -2.25, 2.0) }, "t": func() any { return g.below(2) == 0 },
		"x": func() any { return pick(g, text(), number()) },
		"m": func() any { return map[string]any{"k": pick(g, text(), text(), nil), "a": text()} }, "mi": func() any { return map[string]any{"k": number(), "b": number()} },
		"l": func() any { return []any{"a", "b", text()}[g.below(3):] }, "nl": func() any { return []any{number(), pick(g, number(), number(), nil)} },
		"any": func() any { return map[string]any{"a": nil} }, "when": func() any { return "2026-05-04T10:20:30Z" },
		"o": func() any { return pick[any](g, map[string]any{"p": text(), "q": number()}, map[string]any{}, nil) },
		"ol": func() any {
			list := []any{}
			for range g.below(4) {
				list = append(list, map[string]any{"p": text(), "q": number(), "of": []any{text(), text()}})
			}
			return list
		},
	}
	spec := map[string]any{}
	for _, name := range sortedNames(all) {
		switch g.below(8) {
		case 0:
		case 1:
			if g.below(8) == 0 {
				spec[name] = pick[any](g, nil, int64(1), 1.0, "a", []any{nil}, []any{int64(1)}, map[string]any{"k": true}, map[string]any{"p": 1.5})
				break
			}
			fallthrough
		default:
			spec[name] = all[name]()
		}
	}
	return map[string]any{"apiVersion": "g/v1", "kind": "K", "metadata": map[string]any{"name": "x"}, "spec": spec}
}
