package custom

import (
	"context"
	"math/bits"
	"strconv"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/rowlock/rowlock/resources/custom/expressions"
	"github.com/rowlock/rowlock/resources/jsonscan"
)

// Rules in CEL are the most expensive part of a definition to validate: of each, cel-go makes a program, and an estimate of what it costs. That
// depends on the schema that the rule is in and on nothing around it, and the same schemas are there again and again, with their
// rules (136 published definitions have rules in 561 places, which are 136 different schemas). So each is compiled once (verdict.go),
// and the rest of upstream's rules for rules, which does depend on what is around, is followed here: how many values there may be of
// the schema, and whether these have old ones.

const rulesOfNode = expressions.Field

// ruledPlace is a place in the schema of a version that has rules, or a default that is held against some.
type ruledPlace struct {
	text            string
	ruled, defaults bool
	around
}

// around is what rules depend on beside their schema.
type around struct {
	root bool
	// bounded: there are at most so many values as often says.
	bounded bool
	often   uint64
	// noOld: values have no old ones.
	noOld bool
}

// ruledPlaces finds the places with rules in the schema of a version. It is not ok where upstream would not know all of their types, or where
// they depend on more than around.
func ruledPlaces(index *jsonscan.Index) (places []ruledPlace, ok bool) {
	r := ruledReader{index: index}
	whole := index.Whole()
	ok = r.node(whole, around{root: true, bounded: true, often: 1})
	// Each is read with all that is below it: where they are within each other many times over, upstream, which reads all once, is faster.
	size := 0
	for _, p := range r.places {
		size += len(p.text)
	}
	return r.places, ok && size <= mostNested*len(index.Of(whole))
}

// mostNested is how many times the schema the ones with rules may be long, all together. Of the published ones that is 4 at most.
const mostNested = 12

type ruledReader struct {
	index  *jsonscan.Index
	places []ruledPlace
}

// ruledNode is what is read of a schema that has rules, or others below it that do.
type ruledNode struct {
	kind                      string
	properties, items, values jsonscan.Span
	ruled, defaults           bool
	embedded, either          bool
	open, unrelated, keyed    bool
	most                      string // maxItems, or maxProperties, in decimal; empty: none
}

func (r *ruledReader) node(node jsonscan.Span, at around) bool {
	text := r.index.Of(node)
	if !contains(text, rulesOfNode) {
		return true
	}
	n, ok := r.read(node)
	if !ok {
		return false
	}
	if n.ruled || n.defaults {
		r.places = append(r.places, ruledPlace{text, n.ruled, n.defaults, at})
	}
	inside := around{bounded: at.bounded, often: at.often, noOld: at.noOld}
	switch fields, items, values := !n.properties.IsNone(), !n.items.IsNone(), !n.values.IsNone(); {
	case n.kind == `"object"` && fields && !items && !values:
		inside.noOld = inside.noOld || n.unrelated
		return (!n.open || inside.times(n.most)) && r.properties(n, at.root || n.embedded, inside)
	case n.kind == `"object"` && values && !items && !fields:
		return inside.times(n.most) && r.node(n.values, inside)
	case n.kind == `"array"` && items && !fields && !n.open:
		inside.noOld = inside.noOld || !n.keyed
		return inside.times(n.most) && r.node(n.items, inside)
	default:
		return n.ruled && !fields && !items && !values && (n.kind != "" || n.either)
	}
}

// properties goes through those of an object. What upstream knows of a resource's metadata is not in its schema alone.
func (r *ruledReader) properties(n ruledNode, resource bool, inside around) bool {
	return r.index.Members(n.properties, func(name string, v jsonscan.Span) bool {
		if resource && (name == "metadata" || name == "kind" || name == "apiVersion") {
			return !contains(r.index.Of(v), rulesOfNode)
		}
		return r.node(v, inside)
	})
}

// times is so many values more, which are as many as there may be of what has them.
func (a *around) times(most string) (ok bool) {
	if most == "" {
		a.bounded = false
		return true
	}
	n, err := strconv.ParseInt(most, 10, 64)
	a.often = product(a.often, uint64(max(n, 0)))
	return err == nil
}

func (r *ruledReader) read(node jsonscan.Span) (n ruledNode, ok bool) {
	maxItems, maxProperties := "", ""
	ok = r.index.Members(node, func(name string, v jsonscan.Span) bool {
		text := r.index.Of(v)
		switch name {
		case "type":
			n.kind = text
		case "properties":
			n.properties = v
		case "items":
			n.items = v
			return text[0] == '{'
		case "additionalProperties":
			if n.open = true; text[0] == '{' {
				n.values = v
			}
		case "maxItems":
			maxItems = text
		case "maxProperties":
			maxProperties = text
		case rulesOfNode:
			n.ruled = text != "[]"
		case "default":
			n.defaults = true
		case "x-kubernetes-embedded-resource":
			n.embedded = text == "true"
		case "x-kubernetes-int-or-string":
			n.either = text == "true"
		case "x-kubernetes-map-type":
			mapType := strings.Trim(text, `"`)
			n.unrelated = !cel.MapIsCorrelatable(&mapType)
		case "x-kubernetes-list-type":
			n.keyed = text == `"map"`
		}
		return true
	})
	if n.most = maxItems; n.kind == `"object"` {
		n.most = maxProperties
	}
	return n, ok
}

// rulesHold tells whether the rules of the schema of a version, all of which is valid otherwise, are valid for sure, and defaults keep them.
func (d *Definitions) rulesHold(ctx context.Context, places []ruledPlace) bool {
	var total, held uint64
	for _, p := range places {
		v, ok := d.verdict(ctx, p)
		if !ok || v.old && p.noOld {
			return false
		}
		often := v.often
		if p.bounded {
			often = p.often
		}
		total, held = sum(total, product(v.all, often), v.messages), sum(held, v.held)
		if product(v.most, often) > validation.StaticEstimatedCostLimit || total > validation.StaticEstimatedCRDCostLimit || held >= celconfig.RuntimeCELCostBudget {
			return false
		}
	}
	return true
}

// product and sum are the largest number where they would be larger.
func product(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	if high > 0 {
		return 1<<64 - 1
	}
	return low
}

func sum(all ...uint64) (total uint64) {
	for _, n := range all {
		var carry uint64
		if total, carry = bits.Add64(total, n, 0); carry > 0 {
			return 1<<64 - 1
		}
	}
	return total
}
