package handlers_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
)

const (
	validatingPolicies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
	validatingBindings = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
	mutatingPolicies   = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
	mutatingBindings   = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings"
)

// policy is a policy for creates and updates of a resource; more has further members of its spec.
func policy(name, group, resource, more string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":[%q],"apiVersions":["*"],"operations":["CREATE","UPDATE"],"resources":[%q]}]},%s}}`,
		name, group, resource, more)
}

func binding(name, of, more string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"policyName":%q%s}}`, name, of, more)
}

// Policies apply to the first request after the creation of their binding, with their current params.
func TestValidatingPolicies(t *testing.T) {
	a := newAPI(t)
	const maps, deny = "/api/v1/namespaces/test/configmaps", `,"validationActions":["Deny"]`
	create := func(data string, code int, message string) exchange {
		e := exchange{do: "POST " + maps + "?dryRun=All", body: `{"metadata":{"name":"a"},"data":{"a":"` + data + `"}}`, code: code}
		if message != "" {
			e.says = says{"message": message}
		}
		return e
	}
	const refused = `configmaps "a" is forbidden: ValidatingAdmissionPolicy 'short' with binding 'all' denied request: `
	a.run(
		exchange{do: "POST " + validatingPolicies, code: 201, body: policy("short", "", "configmaps", `"variables":[{"name":"length","expression":"size(object.data.a)"}],
			"validations":[{"expression":"variables.length < 3","messageExpression":"'of length ' + string(variables.length)","reason":"Forbidden"}]`)},
		create("long", 201, ""),
		exchange{do: "POST " + validatingBindings, code: 201, body: binding("all", "short", deny)},
		create("long", 403, refused+"of length 4"),
		create("s", 201, ""),
		exchange{shows: "a warning", do: "PATCH " + validatingBindings + "/all", header: asMergePatch, body: `{"spec":{"validationActions":["Warn","Audit"]}}`, code: 200},
		exchange{do: create("", 0, "").do, body: create("long", 0, "").body, code: 201,
			answer: says{"Warning": `299 - "Validation failed for ValidatingAdmissionPolicy 'short' with binding 'all': of length 4"`}},
		exchange{shows: "what cannot be said", do: "PATCH " + validatingPolicies + "/short", header: asMergePatch,
			body: `{"spec":{"validations":[{"expression":"object.data.none == 'a'"}]}}`, code: 200},
		exchange{do: "PATCH " + validatingBindings + "/all", header: asMergePatch, body: `{"spec":{"validationActions":["Deny"]}}`, code: 200},
		create("s", 422, refused+"expression 'object.data.none == 'a'' resulted in error: no such key: none"),
		exchange{do: "PATCH " + validatingPolicies + "/short", header: asMergePatch, body: `{"spec":{"failurePolicy":"Ignore"}}`, code: 200},
		create("s", 201, ""),
		exchange{do: "DELETE " + validatingPolicies + "/short", code: 200},
		exchange{do: "POST " + validatingPolicies, code: 201, body: policy("short", "", "configmaps", `"matchConditions":[{"name":"c","expression":"has(object.data)"}],
			"paramKind":{"apiVersion":"v1","kind":"ConfigMap"},"validations":[{"expression":"size(object.data.a) <= int(params.data.most)"}]`)},
		exchange{do: "PATCH " + validatingBindings + "/all", header: asMergePatch, body: `{"spec":{"paramRef":{"name":"most","parameterNotFoundAction":"Deny"}}}`, code: 200},
		create("s", 422, "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'short' with binding 'all' denied request: failed to configure binding: "+
			"no params found for policy binding with `Deny` parameterNotFoundAction"),
		exchange{do: "PATCH " + validatingBindings + "/all", header: asMergePatch, body: `{"spec":{"paramRef":{"parameterNotFoundAction":"Allow"}}}`, code: 200},
		create("s", 201, ""),
		exchange{do: "POST " + maps, body: `{"metadata":{"name":"most","labels":{"a":"b"}}}`, code: 201},
		exchange{do: "PATCH " + maps + "/most", header: asMergePatch, body: `{"data":{"most":"2","a":""}}`, code: 422},
		exchange{do: "PATCH " + validatingBindings + "/all", header: asMergePatch, body: `{"spec":{"matchResources":{"objectSelector":{"matchLabels":{"checked":"yes"}}}}}`, code: 200},
		exchange{do: "PATCH " + maps + "/most", header: asMergePatch, body: `{"data":{"most":"2","a":""}}`, code: 200},
		create("long", 201, ""),
		exchange{do: "PATCH " + validatingBindings + "/all", header: asMergePatch, body: `{"spec":{"matchResources":null}}`, code: 200},
		create("long", 422, refused+"failed expression: size(object.data.a) <= int(params.data.most)"),
		create("ok", 201, ""),
		exchange{shows: "params by a selector", do: "PATCH " + validatingBindings + "/all", header: asMergePatch,
			body: `{"spec":{"paramRef":{"name":null,"selector":{"matchLabels":{"a":"b"}}}}}`, code: 200},
		create("long", 422, refused+"failed expression: size(object.data.a) <= int(params.data.most)"),
	)
}

// Params may be custom resources, as soon as these are defined.
func TestPoliciesByCustomParams(t *testing.T) {
	a := newAPI(t)
	create := exchange{do: "POST /api/v1/namespaces/test/configmaps?dryRun=All", body: `{"metadata":{"name":"a"},"data":{"a":"long"}}`, code: 422, says: says{
		"message": `configmaps "a" is forbidden: ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: failed to find resource referenced by paramKind: 'example.com/v1, Kind=Widget'`}}
	a.run(exchange{do: "POST " + validatingPolicies, code: 201, body: policy("p", "", "configmaps",
		`"paramKind":{"apiVersion":"example.com/v1","kind":"Widget"},"validations":[{"expression":"size(object.data.a) < params.spec.size && params.spec.color == 'red'"}]`)},
		exchange{do: "POST " + validatingBindings, code: 201, body: binding("b", "p", `,"validationActions":["Deny"],"paramRef":{"name":"w","parameterNotFoundAction":"Allow"}`)},
		create,
		exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", widgetSpec, true)), code: 201})
	create.code, create.says = 201, nil
	a.run(create, exchange{do: "POST " + widgets, body: widget("w", `{"size":4}`), code: 201})
	create.code = 422
	a.run(create, exchange{do: "PATCH " + widgets + "/w", header: asMergePatch, body: `{"spec":{"size":5}}`, code: 200})
	create.code = 201
	a.run(create)
}

// Params of client-go's kinds have no managedFields, as in kube-apiserver's informers; all others have theirs.
func TestManagedFieldsOfParams(t *testing.T) {
	a := newAPI(t)
	create := exchange{do: "POST /api/v1/namespaces/test/configmaps?dryRun=All", body: `{"metadata":{"name":"a"}}`}
	a.run(exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"w"},"data":{"a":"b"}}`, code: 201},
		exchange{do: "GET " + configMaps + "/w", code: 200, says: says{"metadata.managedFields.0.operation": "Update"}},
		exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", widgetSpec, true)), code: 201},
		exchange{do: "POST " + widgets, body: widget("w", `{"size":4}`), code: 201})
	for kind, want := range map[string]int{`{"apiVersion":"v1","kind":"ConfigMap"}`: 422, `{"apiVersion":"example.com/v1","kind":"Widget"}`: 201} {
		create.code = want
		a.run(exchange{do: "POST " + validatingPolicies, code: 201, body: policy("p", "", "configmaps",
			`"paramKind":`+kind+`,"validations":[{"expression":"has(params.metadata.managedFields)"}]`)},
			exchange{do: "POST " + validatingBindings, code: 201, body: binding("b", "p", `,"validationActions":["Deny"],"paramRef":{"name":"w","parameterNotFoundAction":"Deny"}`)},
			create,
			exchange{do: "DELETE " + validatingBindings + "/b", code: 200}, exchange{do: "DELETE " + validatingPolicies + "/p", code: 200})
	}
}

// Validating policies are not evaluated for requests that fail anyway: deletions with failing preconditions, and invalid bindings and evictions.
// For the dry run of an eviction, the options of the deletion say so.
func TestPoliciesComeAfterPreconditions(t *testing.T) {
	a := newAPI(t)
	const pod = "/api/v1/namespaces/test/pods/p"
	rule := `{"apiGroups":["","policy"],"apiVersions":["*"],"operations":["DELETE","CREATE"],"resources":["configmaps","bindings","pods/binding","pods/eviction"]}`
	a.run(
		exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"a"}}`, code: 201},
		exchange{do: "POST /api/v1/namespaces/test/pods", body: `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`, code: 201},
		exchange{do: "POST " + validatingPolicies, code: 201, body: `{"metadata":{"name":"no"},"spec":{"matchConstraints":{"resourceRules":[` + rule + `]},"validations":[
			{"expression":"has(object.deleteOptions) && object.deleteOptions.dryRun == ['All']","message":"no"}]}}`},
		exchange{do: "POST " + validatingBindings, code: 201, body: binding("no", "no", `,"validationActions":["Deny"]`)},
		exchange{do: "DELETE " + configMaps + "/a", code: 422},
		exchange{do: "DELETE " + configMaps + "/a", body: `{"preconditions":{"uid":"zz"}}`, code: 409},
		exchange{do: "DELETE " + configMaps + "/a", body: `{"preconditions":{"resourceVersion":"1"}}`, code: 409},
		exchange{do: "DELETE " + configMaps, body: `{"preconditions":{"uid":"zz"}}`, code: 409},
		exchange{do: "POST " + pod + "/binding", body: `{"metadata":{"name":"p"},"target":{"name":"n"}}`, code: 422},
		exchange{do: "POST " + pod + "/binding", body: `{"metadata":{"name":"q"},"target":{"name":"n"}}`, code: 400},
		exchange{do: "POST " + pod + "/binding", body: `{"metadata":{"name":"p"},"target":{"kind":"Foo","name":"n"}}`, code: 500},
		exchange{do: "POST /api/v1/namespaces/test/bindings", body: `{"metadata":{"name":"p"},"target":{"kind":"Foo","name":"n"}}`, code: 500},
		exchange{do: "POST " + pod + "/eviction", body: `{"metadata":{"name":"p"}}`, code: 422},
		exchange{do: "POST " + pod + "/eviction", body: `{"metadata":{"name":"q"}}`, code: 400},
		exchange{do: "POST " + pod + "/eviction?dryRun=All", body: `{"metadata":{"name":"p"},"deleteOptions":{}}`, code: 201},
	)
}

// Mutating policies change objects by apply configurations and JSON patches.
func TestMutatingPolicies(t *testing.T) {
	a := newAPI(t)
	a.run(
		exchange{do: "POST " + mutatingPolicies, code: 201, body: policy("m", "", "configmaps", `"reinvocationPolicy":"Never","mutations":[
			{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":"Object{metadata: Object.metadata{labels: {'applied': 'yes'}}}"}},
			{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'add', path: '/data', value: {'patched': object.metadata.name}}]"}}]`)},
		exchange{do: "POST " + mutatingBindings, code: 201, body: binding("b", "m", "")},
		exchange{do: "POST /api/v1/namespaces/test/configmaps", body: `{"metadata":{"name":"a"}}`, code: 201,
			says: says{"metadata.labels.applied": "yes", "data.patched": "a"}},
		exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", widgetSpec, true)), code: 201},
		exchange{do: "POST " + mutatingPolicies, code: 201, body: policy("w", "example.com", "widgets", `"reinvocationPolicy":"Never","mutations":[
			{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":"Object{spec: Object.spec{replicas: 3, tags: ['a']}}"}}]`)},
		exchange{do: "POST " + mutatingBindings, code: 201, body: binding("w", "w", "")},
		exchange{do: "POST " + widgets, body: widget("w", `{"size":1}`), code: 201, says: says{"spec.replicas": "3", "spec.tags": `["a"]`, "spec.color": "red"}},
		exchange{do: "DELETE " + mutatingBindings + "/b", code: 200},
		exchange{do: "POST /api/v1/namespaces/test/configmaps", body: `{"metadata":{"name":"b"}}`, code: 201, says: says{"metadata.labels": "-"}},
	)
}

// An apply or a PUT that creates an object which a policy renames fails once an object of the new name exists.
func TestMutatingPoliciesRename(t *testing.T) {
	a := newAPI(t)
	apply := exchange{do: "PATCH " + configMaps + "/orig?fieldManager=m", header: asApply, body: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: orig}", code: 201,
		says: says{"metadata.name": "other"}}
	a.run(
		exchange{do: "POST " + mutatingPolicies, code: 201, body: policy("m", "", "configmaps", `"reinvocationPolicy":"Never","mutations":[
			{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'replace', path: '/metadata/name', value: 'other'}]"}}]`)},
		exchange{do: "POST " + mutatingBindings, code: 201, body: binding("b", "m", "")},
		apply,
	)
	apply.code, apply.says = 422, says{"details.causes.0.field": "metadata.name", "details.causes.0.message": `Invalid value: "orig": field is immutable`}
	a.run(apply)
}

// For subresources with their own kind, of which policies have no schema, JSON patches work; an apply configuration fails as the policy's
// failurePolicy says.
func TestMutatingPoliciesOfSubresources(t *testing.T) {
	a := newAPI(t)
	const d = "/apis/apps/v1/namespaces/test/deployments/d"
	a.run(
		exchange{do: "PATCH " + d + "?fieldManager=m", header: asApply, body: deployment, code: 201},
		exchange{do: "POST /api/v1/namespaces/test/pods", body: `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`, code: 201},
		exchange{do: "POST " + mutatingPolicies, code: 201, body: policy("m", "*", "*/*", `"reinvocationPolicy":"Never","mutations":[
			{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'add', path: '/metadata/annotations', value: {'a': 'b'}}]"}}]`)},
		exchange{do: "POST " + mutatingBindings, code: 201, body: binding("b", "m", "")},
		exchange{do: "PATCH " + d + "/scale", header: asMergePatch, body: `{"spec":{"replicas":3}}`, code: 200, says: says{"spec.replicas": "3"}},
		exchange{do: "POST /api/v1/namespaces/test/pods/p/binding", body: `{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n"}}`, code: 201},
		exchange{do: "GET /api/v1/namespaces/test/pods/p", code: 200, says: says{"spec.nodeName": "n", "metadata.annotations.a": "b"}},
		exchange{do: "POST /api/v1/namespaces/test/pods/p/eviction", body: `{"metadata":{"name":"p"}}`, code: 201},
		exchange{do: "DELETE " + mutatingBindings + "/b", code: 200},
		exchange{do: "POST " + mutatingPolicies, code: 201, body: policy("c", "apps", "deployments/scale", `"reinvocationPolicy":"Never","mutations":[
			{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":"Object{metadata: Object.metadata{labels: {'a': 'b'}}}"}}]`)},
		exchange{do: "POST " + mutatingBindings, code: 201, body: binding("c", "c", "")},
		exchange{do: "PATCH " + d + "/scale", header: asMergePatch, body: `{"spec":{"replicas":4}}`, code: 403,
			says: says{"message": "policy 'c' with binding 'c' denied request: error applying patch: failed to convert patch object to typed object: " +
				"no corresponding type for autoscaling/v1, Kind=Scale"}},
		exchange{do: "PATCH " + mutatingPolicies + "/c", header: asMergePatch, body: `{"spec":{"failurePolicy":"Ignore"}}`, code: 200},
		exchange{do: "PATCH " + d + "/scale", header: asMergePatch, body: `{"spec":{"replicas":4}}`, code: 200, says: says{"spec.replicas": "4"}},
	)
}

// An unreadable policy does not disable others: writes fail until it is deleted, which remains possible.
func TestUnreadablePolicy(t *testing.T) {
	a := newAPI(t)
	create := exchange{do: "POST /api/v1/namespaces/test/configmaps", body: `{"metadata":{"name":"a"}}`, code: 403}
	a.run(
		exchange{do: "POST " + validatingPolicies, code: 201, body: policy("never", "", "configmaps", `"validations":[{"expression":"false","reason":"Forbidden"}]`)},
		exchange{do: "POST " + validatingBindings, code: 201, body: binding("all", "never", `,"validationActions":["Deny"]`)},
		create)
	data := `{"kind":"ValidatingAdmissionPolicy","apiVersion":"admissionregistration.k8s.io/v1beta1","metadata":{"name":"a","resourceVersion":"0"}}`
	at := strings.Index(data, `"0"`) + 1
	if _, err := a.store.Commit(t.Context(), resources.Write{Op: resources.Create,
		Key:   resources.Key{Resource: "validatingadmissionpolicies.admissionregistration.k8s.io", Name: "a"},
		Draft: resources.Draft{Data: []byte(data), RevisionStart: at, RevisionEnd: at + 1}}); err != nil {
		t.Fatal(err)
	}
	if code, body := a.request("POST", "/api/v1/namespaces/test/configmaps", create.body, nil); code != 500 {
		t.Errorf("%d %s", code, body)
	}
	a.run(exchange{do: "DELETE " + validatingPolicies + "/a", code: 200}, create)
}

// Validating admission sees an update that mutating admission has undone as unchanged: managedFields keep their times.
func TestPoliciesSeeUndoneUpdates(t *testing.T) {
	a := newAPI(t)
	const maps = "/api/v1/namespaces/test/configmaps"
	put := exchange{do: "PUT " + maps + "/a?fieldManager=m", body: `{"metadata":{"name":"a"},"data":{"a":"c"}}`, code: 200}
	a.run(
		exchange{do: "POST " + mutatingPolicies, code: 201, body: policy("b", "", "configmaps", `"reinvocationPolicy":"Never","mutations":[{"patchType":"JSONPatch",
			"jsonPatch":{"expression":"[JSONPatch{op: 'replace', path: '/data/a', value: 'b'}]"}}]`)},
		exchange{do: "POST " + mutatingBindings, code: 201, body: binding("b", "b", "")},
		exchange{do: "POST " + maps + "?fieldManager=m", body: `{"metadata":{"name":"a"},"data":{"a":"c"}}`, code: 201},
		exchange{do: "POST " + validatingPolicies, code: 201, body: policy("same", "", "configmaps", `"validations":[{"expression":"object == oldObject"}]`)},
		exchange{do: "POST " + validatingBindings, code: 201, body: binding("same", "same", `,"validationActions":["Deny"]`)},
	)
	time.Sleep(1100 * time.Millisecond) // managedFields have seconds
	a.run(put)
}
