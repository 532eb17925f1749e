package plan

import (
	"math"
	"unicode/utf8"

	"k8s.io/kube-openapi/pkg/validation/strfmt"
)

func (n *Node) checkScalar(v any) verdict {
	switch v := v.(type) {
	case string:
		return worst(n.allows(aString), worst(n.checkText(v), n.listed(v)))
	case bool:
		return worst(n.allows(aBoolean), n.listed(v))
	case int64:
		return worst(n.allows(anInteger|aNumber), worst(n.checkInt(v), n.listed(v)))
	case float64:
		return n.checkFloat(v)
	}
	return unknown
}

func (n *Node) checkText(s string) verdict {
	t := &n.text
	if t.length.min > 0 || t.length.max < int64(len(s)) {
		if !t.length.hold(int64(utf8.RuneCountInString(s))) {
			return invalid
		}
	}
	if t.format != "" && !strfmt.Default.Validates(t.format, s) {
		return invalid
	}
	if t.pattern != nil {
		return t.pattern.check(s)
	}
	return valid
}

// listed reports whether a value is in the enum. Upstream also accepts a number for the text, or for the other number, that Go
// converts it to.
func (n *Node) listed(v any) verdict {
	if len(n.enum) == 0 {
		return valid
	}
	for _, allowed := range n.enum {
		if v == allowed {
			return valid
		}
	}
	if _, number := v.(int64); number {
		return unknown
	}
	return invalid
}

func (n *Node) checkInt(i int64) verdict {
	switch {
	case n.int32 && !fitsInt32(i),
		n.min != nil && (i < n.min.whole || n.min.exclusive && i == n.min.whole),
		n.max != nil && (i > n.max.whole || n.max.exclusive && i == n.max.whole):
		return invalid
	}
	return valid
}

func fitsInt32(i int64) bool { return math.MinInt32 <= i && i <= math.MaxInt32 }

func (n *Node) checkFloat(f float64) verdict {
	switch {
	case n.noFloats, len(n.enum) > 0, math.IsNaN(f), math.IsInf(f, 0), n.types != 0 && n.types&aNumber == 0:
		return unknown
	case n.min != nil && (f < n.min.float || n.min.exclusive && f == n.min.float),
		n.max != nil && (f > n.max.float || n.max.exclusive && f == n.max.float):
		return invalid
	}
	return valid
}
