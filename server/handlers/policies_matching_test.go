package handlers_test

import (
	"fmt"
	"testing"
)

// Rules of a policy apply to the objects that they name, except for those of excluded rules, and those of a binding restrict them.
func TestPoliciesMatchNames(t *testing.T) {
	a := newAPI(t)
	const rule = `{"apiGroups":[""],"apiVersions":["v1"],"operations":["*"],"resources":[%q]%s}`
	rules := func(resource, names string) string { return "[" + fmt.Sprintf(rule, resource, names) + "]" }
	create := func(resource, name string, code int) exchange {
		return exchange{do: "POST /api/v1/namespaces/test/" + resource + "?dryRun=All", body: fmt.Sprintf(`{"metadata":{"name":%q}}`, name), code: code}
	}
	a.run(
		exchange{do: "POST " + validatingPolicies, code: 201, body: fmt.Sprintf(
			`{"metadata":{"name":"p"},"spec":{"matchConstraints":{"resourceRules":%s,"excludeResourceRules":%s},"validations":[{"expression":"false"}]}}`,
			rules("*", `,"resourceNames":["named","kept"]`), rules("secrets", ""))},
		exchange{do: "POST " + validatingBindings, code: 201, body: binding("b", "p", `,"validationActions":["Deny"]`)},
		create("configmaps", "named", 422),
		create("configmaps", "other", 201),
		create("secrets", "named", 201),
		create("serviceaccounts", "kept", 422),
		exchange{do: "PATCH " + validatingBindings + "/b", header: asMergePatch, code: 200, body: fmt.Sprintf(`{"spec":{"matchResources":{"resourceRules":%s,"excludeResourceRules":%s}}}`,
			rules("*", ""), rules("configmaps", `,"resourceNames":["named"]`))},
		create("configmaps", "named", 201),
		create("configmaps", "kept", 422),
		create("serviceaccounts", "named", 422),
	)
}

// The params of a policy may have no namespace.
func TestPoliciesByClusterParams(t *testing.T) {
	a := newAPI(t)
	create := exchange{do: "POST /api/v1/namespaces/test/configmaps?dryRun=All", body: `{"metadata":{"name":"a","labels":{"stage":"live"}}}`, code: 201}
	refused := create
	refused.code = 422
	a.run(
		exchange{do: "POST /apis/scheduling.k8s.io/v1/priorityclasses", body: `{"metadata":{"name":"params","labels":{"stage":"live"}},"value":1}`, code: 201},
		exchange{do: "POST " + validatingPolicies, code: 201, body: policy("p", "", "configmaps",
			`"paramKind":{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass"},"validations":[{"expression":"object.metadata.labels.stage == params.metadata.labels.stage"}]`)},
		exchange{do: "POST " + validatingBindings, code: 201, body: binding("b", "p", `,"validationActions":["Deny"],"paramRef":{"name":"params","parameterNotFoundAction":"Deny"}`)},
		create,
		exchange{do: "PATCH /apis/scheduling.k8s.io/v1/priorityclasses/params", header: asMergePatch, body: `{"metadata":{"labels":{"stage":"test"}}}`, code: 200},
		refused,
		exchange{shows: "a namespace for params that have none", do: "PATCH " + validatingBindings + "/b", header: asMergePatch, body: `{"spec":{"paramRef":{"namespace":"test"}}}`, code: 200},
		exchange{do: create.do, body: create.body, code: 422, says: says{"message": "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: " +
			"failed to configure binding: paramRef.namespace must not be provided for a cluster-scoped `paramKind`"}},
		exchange{do: "PATCH " + validatingBindings + "/b", header: asMergePatch, body: `{"spec":{"paramRef":{"namespace":null,"name":"none"}}}`, code: 200},
		refused,
	)
}

// A mutating policy is evaluated again after another one has changed the object, if it says so.
func TestMutatingPoliciesAgain(t *testing.T) {
	for _, reinvocation := range []string{"Never", "IfNeeded"} {
		a := newAPI(t)
		for own, other := range map[string]string{"a": "b", "b": "a"} { // each adds a label, and a second one to an object with the label of the other
			expression := fmt.Sprintf("has(object.metadata.labels) && '%[2]s' in object.metadata.labels ? Object{metadata: Object.metadata{labels: {'%[1]s': '', '%[1]s2': ''}}} : "+
				"Object{metadata: Object.metadata{labels: {'%[1]s': ''}}}", own, other)
			a.run(exchange{do: "POST " + mutatingPolicies, code: 201, body: policy(own, "", "configmaps", fmt.Sprintf(
				`"reinvocationPolicy":%q,"mutations":[{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":%q}}]`, reinvocation, expression))},
				exchange{do: "POST " + mutatingBindings, code: 201, body: binding(own, own, "")})
		}
		labels := map[string]string{"Never": `{"a":"","b":"","b2":""}`, "IfNeeded": `{"a":"","a2":"","b":"","b2":""}`}[reinvocation]
		a.run(exchange{shows: reinvocation, do: "POST /api/v1/namespaces/test/configmaps", body: `{"metadata":{"name":"a"}}`, code: 201, says: says{"metadata.labels": labels}})
	}
}
