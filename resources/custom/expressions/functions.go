package expressions

import (
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/cel-go/common/overloads"
)

// function is a call of a function; the target of a member call is its first argument.
func function(name string, args []*term) (*term, error) {
	if len(args) == 0 {
		return nil, errForeign
	}
	a := args[0]
	switch {
	case name == overloads.Size && len(args) == 1:
		return size(a)
	case a.kind != aString:
		return nil, errForeign
	case len(args) == 1:
		return ofText(name, a)
	case len(args) == 2 && args[1].kind == aString:
		return ofTexts(name, a, args[1])
	case name == "substring":
		return substring(args)
	}
	return nil, errForeign
}

func size(a *term) (*term, error) {
	var count func(v any) int64
	switch a.kind {
	case aString:
		count = func(v any) int64 { return int64(utf8.RuneCountInString(v.(string))) }
	case aList:
		count = func(v any) int64 { return int64(len(v.([]any))) }
	case aMap:
		count = func(v any) int64 { return int64(len(v.(map[string]any))) }
	default:
		return nil, errForeign
	}
	of := a.eval
	return &term{shape: &shape{kind: anInt}, eval: func(f *frame) (any, bool) {
		v, ok := of(f)
		if !ok {
			return nil, false
		}
		f.cost++
		return count(v), true
	}}, nil
}

// ofText is a function of one text.
func ofText(name string, a *term) (*term, error) {
	var do func(s string) (any, bool)
	result := aString
	switch name {
	case overloads.TypeConvertDuration:
		result = duration
		do = func(s string) (any, bool) {
			d, err := time.ParseDuration(s)
			return d, err == nil
		}
	case overloads.TypeConvertInt:
		result = anInt
		do = func(s string) (any, bool) {
			i, err := strconv.ParseInt(s, 10, 64)
			return i, err == nil
		}
	case "lowerAscii":
		do = func(s string) (any, bool) { return lowerASCII(s), true }
	default:
		return nil, errForeign
	}
	if a.constant {
		if v, ok := do(a.value.(string)); ok {
			return &term{shape: &shape{kind: result}, eval: costs(1+traversal(len(a.value.(string))), v)}, nil
		}
		return nil, errForeign
	}
	of := a.eval
	return &term{shape: &shape{kind: result}, eval: func(f *frame) (any, bool) {
		v, ok := of(f)
		if !ok {
			return nil, false
		}
		s := v.(string)
		f.cost += 1 + traversal(len(s))
		return do(s)
	}}, nil
}

func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// ofTexts is a test of two texts.
func ofTexts(name string, a, b *term) (*term, error) {
	var test func(s, t string) bool
	var cost func(s, t string) int64
	switch name {
	case overloads.Contains:
		test, cost = strings.Contains, func(s, t string) int64 { return traversal(len(s)) * traversal(len(t)) }
	case overloads.StartsWith:
		test, cost = strings.HasPrefix, func(_, t string) int64 { return traversal(len(t)) }
	case overloads.EndsWith:
		test, cost = strings.HasSuffix, func(_, t string) int64 { return traversal(len(t)) }
	case overloads.Matches:
		if !b.constant {
			return nil, errForeign
		}
		expression, err := regexp.Compile(b.value.(string))
		if err != nil {
			return nil, errForeign
		}
		test = func(s, _ string) bool { return expression.MatchString(s) }
		cost = func(s, t string) int64 { return traversal(1+len(s)) * expressionCost(len(t)) }
	default:
		return nil, errForeign
	}
	of := pair{a.eval, b.eval}
	return truth(func(f *frame) (any, bool) {
		x, y, ok := of.both(f)
		if !ok {
			return nil, false
		}
		s, t := x.(string), y.(string)
		if f.cost += cost(s, t); f.cost > f.limit {
			return nil, false
		}
		return test(s, t), true
	}), nil
}

// substring counts characters, not bytes; with invalid bounds it has no value. A text in ASCII is sliced directly.
func substring(args []*term) (*term, error) {
	var bounds []eval
	for _, a := range args[1:] {
		if a.kind != anInt || len(args) > 3 {
			return nil, errForeign
		}
		bounds = append(bounds, a.eval)
	}
	of := args[0].eval
	return &term{shape: args[0].shape, eval: func(f *frame) (any, bool) {
		v, ok := of(f)
		if !ok {
			return nil, false
		}
		s := v.(string)
		f.cost += traversal(len(s))
		at := [2]int64{0, int64(len(s))}
		for i, of := range bounds {
			bound, ok := of(f)
			if !ok {
				return nil, false
			}
			at[i] = bound.(int64)
		}
		if at[0] < 0 || at[0] > at[1] || at[1] > int64(len(s)) || !ascii(s) {
			return nil, false
		}
		return s[at[0]:at[1]], true
	}}, nil
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
