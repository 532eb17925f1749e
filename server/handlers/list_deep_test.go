package handlers_test

import (
	"strings"
	"testing"
)

// A YAML list with an object that is nested too deeply is rejected before anything is written, as that object alone is.
func TestYAMLListWithObjectTooDeep(t *testing.T) {
	a := newAPI(t)
	deep := strings.Repeat("[", 9000) + strings.Repeat("0,", 5000) + "0" + strings.Repeat("]", 9000)
	asYAML := map[string]string{"Accept": "application/yaml"}
	a.run(
		exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`, true)), code: 201},
		exchange{do: "POST " + widgets, body: `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":1}}`, code: 201},
		exchange{do: "GET " + widgets, header: asYAML, code: 200},
		exchange{do: "POST " + widgets, body: `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"b"},"spec":{"deep":` + deep + `}}`, code: 201},
		exchange{do: "GET " + widgets + "/b", header: asYAML, code: 406},
		exchange{do: "GET " + widgets, header: asYAML, code: 406},
		exchange{do: "GET " + widgets, code: 200, says: says{"items.#": "2"}},
	)
}
