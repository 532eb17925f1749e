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

// Rules in CEL are the most expensive part of a definition to validate: for each, cel-go makes a program and an estimate of its cost. These
// depend only on the schema that the rule is in, and the same schemas recur with their rules (136 published definitions have rules in 561
// places, which are 136 different schemas). So each is compiled once (verdict.go). The rest of upstream's checks of rules does depend on the
// surroundings, and is done here: the number of values that the schema may have, and whether these have old values.

const rulesOfNode = expressions.Field

// ruledPlace is a place in the schema of a version that has rules, or a default that has to satisfy rules.
type ruledPlace struct {
	text            string
	ruled, defaults bool
	around
}

// around is what upstream's checks of rules depend on besides their schema.
type around struct {
	root bool
	// bounded: there are at most often values.
	bounded bool
	often   uint64
	// noOld: values have no old values to compare with.
	noOld bool
}

// ruledPlaces finds the places with rules in the schema of a version. ok is false where upstream would not know all of their types, or where
// the checks depend on more than around.
func ruledPlaces(index *jsonscan.Index) (places []ruledPlace, ok bool) {
	r := ruledReader{index: index}
	whole := index.Whole()
	ok = r.node(whole, around{root: true, bounded: true, often: 1})
	// Each place is read with all that is below it: if they are nested many times, upstream, which reads everything once, is faster.
	size := 0
	for _, p := range r.places {
		size += len(p.text)
	}
	return r.places, ok && size <= mostNested*len(index.Of(whole))
}

// mostNested bounds the total length of the schemas with rules, in multiples of the whole schema. For the published ones it is at most 4.
const mostNested = 12

type ruledReader struct {
	index  *jsonscan.Index
	places []ruledPlace
}

// ruledNode has the members of a schema that has rules, or has schemas with rules below it.
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

// properties visits the properties of an object. For a resource, upstream knows more of metadata than its schema says.
func (r *ruledReader) properties(n ruledNode, resource bool, inside around) bool {
	return r.index.Members(n.properties, func(name string, v jsonscan.Span) bool {
		if resource && (name == "metadata" || name == "kind" || name == "apiVersion") {
			return !contains(r.index.Of(v), rulesOfNode)
		}
		return r.node(v, inside)
	})
}

// times multiplies the number of values by the bound of a list or a map.
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

// rulesHold reports whether the rules of the schema of a version, which is valid otherwise, are certainly valid, and defaults satisfy them.
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

// product and sum return the largest number on overflow.
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
