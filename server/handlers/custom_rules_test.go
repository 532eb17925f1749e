package handlers_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// ruledSpec has rules that compile to closures, one of which refers to oldSelf, and, with more, rules that upstream must evaluate.
func ruledSpec(more string) string {
	return `{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string","maxLength":100},"old":{"type":"string","maxLength":100},"many":{"type":"array","maxItems":140,"items":{"type":"integer"}},"text":{"type":"string","maxLength":100},
		"list":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","required":["k"],
		"properties":{"k":{"type":"string"},"v":{"type":"integer"}},"x-kubernetes-validations":[{"rule":"self.v >= oldSelf.v","message":"v shrinks"}]}}},
		"x-kubernetes-validations":[{"rule":"!has(self.b) || self.b.startsWith('x') && self.a > 1","messageExpression":"'no b with ' + self.b"},
		{"rule":"!has(self.old) || self.old == 'fine'","message":"old"},{"rule":"!has(self.many) || self.many.all(i, self.many.all(j, i >= j && (!has(self.text) || self.text.matches('^t(and a long expression that costs much)?'))))","message":"many differ"}` + more + `]}`
}

// Responses are the same whether closures or upstream evaluate rules; if all rules hold, nothing is left to upstream.
func TestRulesHoldAsUpstreams(t *testing.T) {
	t.Cleanup(fastpath.TurnAll(true))
	many := strings.TrimSuffix(strings.Repeat("1,", 140), ",") // with a text that is long to search: a few steps spend the budget
	uid := regexp.MustCompile(`"(uid|resourceVersion|creationTimestamp|time)":"[^"]*",?`)
	for _, more := range []string{"", `,{"rule":"!has(self.b) || self.b.split('y').size() < 3","message":"two y"}`} {
		var answers [2][]string
		for i, on := range []bool{true, false} {
			back := fastpath.CustomCEL.Turn(on)
			a := newAPI(t)
			a.run(exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", ruledSpec(more), true)), code: 201})
			left := fastpath.CustomCEL.Fallbacks()
			send := func(name, spec string) {
				for _, do := range []string{"POST " + widgets, "PUT " + widgets + "/" + name} {
					method, path, _ := strings.Cut(do, " ")
					code, body := a.request(method, path, widget(name, spec), nil)
					answers[i] = append(answers[i], fmt.Sprint(do, " ", spec[:min(len(spec), 80)], ": ", code, " ", uid.ReplaceAllString(body, "")))
				}
			}
			send("a", `{"a":1,"list":[{"k":"x","v":1}]}`)
			send("a", `{"a":2,"b":"xy","list":[{"k":"y"},{"k":"x","v":2}]}`)
			if n := fastpath.CustomCEL.Fallbacks(); more == "" && n != left {
				t.Errorf("%d of the valid objects were left to upstream", n-left)
			}
			send("a", `{"a":2,"b":"xy","list":[{"k":"x","v":1}]}`)
			send("a", `{"a":1,"b":"xy"}`)
			send("a", `{"a":2,"b":"xyyy"}`)
			send("b", `{"b":"x"}`)
			send("c", `{"old":"bad"}`)
			send("c", `{"many":[1,2]}`)
			send("c", `{"many":[`+many+`],"text":"`+strings.Repeat("t", 100)+`"}`)
			back()
		}
		if last := answers[0][len(answers[0])-2]; !strings.Contains(last, "actual cost limit exceeded") {
			t.Errorf("what costs too much: %s", last)
		}
		for i, with := range answers[0] {
			if without := answers[1][i]; with != without {
				t.Errorf("with closures:\n%s\nwithout:\n%s", with, without)
			}
		}
	}
}
