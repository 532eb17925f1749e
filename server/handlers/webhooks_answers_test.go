package handlers_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"

	"github.com/rowlock/rowlock/resources"
)

// An object from a mutating webhook is defaulted and validated, and passed to later webhooks, and again to an earlier one with reinvocation;
// nothing else of the write is visible.
func TestWebhooksChangeObjects(t *testing.T) {
	a, v := newAPI(t), newReviewer(t)
	const deployments = "/apis/apps/v1/namespaces/test/deployments"
	deployment := `{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`
	v.patches("/first", `[{"op":"add","path":"/spec/template/spec/containers/-","value":{"name":"more","image":"more"}}]`)
	v.answer("/first", func(r gjson.Result) map[string]any {
		if r.Get("object.spec.template.spec.containers.#").Int() > 1 {
			return map[string]any{"allowed": true}
		}
		return map[string]any{"allowed": true, "patchType": "JSONPatch", "patch": []byte(
			`[{"op":"add","path":"/spec/template/spec/containers/-","value":{"name":"more","image":"more"}}]`)}
	})
	v.patches("/second", `[{"op":"add","path":"/metadata/labels","value":{"second":"was-here"}}]`)
	rules := ruleFor("apps", "v1", "deployments")
	a.run(exchange{do: "POST " + mutatingConfigurations, code: 201, body: webhooks("m", v.webhook("/first", rules, `"reinvocationPolicy":"IfNeeded"`), v.webhook("/second", rules, ""))},
		exchange{do: "POST " + validatingConfigurations, code: 201, body: webhooks("v", v.webhook("/validate", rules, ""))},
		exchange{do: "POST " + deployments, body: deployment, code: 201, says: says{"spec.template.spec.containers.#.name": `["c","more"]`,
			"spec.template.spec.containers.1.imagePullPolicy": "Always", "metadata.labels.second": "was-here", "metadata.managedFields.#": "1"}})
	v.wants(t, "the create", "first CREATE apps/v1 deployments Deployment test/d new CreateOptions", "second CREATE apps/v1 deployments Deployment test/d new CreateOptions",
		"first CREATE apps/v1 deployments Deployment test/d new CreateOptions", "validate CREATE apps/v1 deployments Deployment test/d new CreateOptions")

	v.patches("/second", `[{"op":"replace","path":"/spec/replicas","value":-1}]`)
	a.run(exchange{do: "PATCH " + deployments + "/d", header: asMergePatch, body: `{"spec":{"paused":true}}`, code: 422,
		says: says{"message": `Deployment.apps "d" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0`}})
	v.patches("/second", `[{"op":"add","path":"/metadata/managedFields","value":[{"manager":"m","operation":"Wrong","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{}}]}]`)
	a.run(exchange{do: "PATCH " + deployments + "/d", header: asMergePatch, body: `{"spec":{"paused":true}}`, code: 200, says: says{"metadata.managedFields.#.manager": `["test"]`},
		answer: says{"Warning": `299 - ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating admission controller; ` +
			"please fix your requests: operation must be `Apply` or `Update`\""}})
	v.patches("/second", `[{"op":"replace","path":"/spec/nothing/here","value":1}]`)
	a.run(exchange{do: "DELETE " + deployments + "/d", code: 500})
}

// Responses and failures of webhooks have the same effect as in kube-apiserver.
func TestWebhooksAnswers(t *testing.T) {
	a, v := newAPI(t), newReviewer(t)
	const maps = "/api/v1/namespaces/test/configmaps"
	rules := ruleFor("", "v1", "configmaps")
	create := func(code int, message string) exchange {
		e := exchange{do: "POST " + maps + "?dryRun=All", body: `{"metadata":{"name":"a"}}`, code: code}
		if message != "" {
			e.says = says{"message": message}
		}
		return e
	}
	v.answer("/down", func(gjson.Result) map[string]any { return nil })
	v.answer("/no", func(gjson.Result) map[string]any {
		return map[string]any{"allowed": false, "status": map[string]any{"message": "because", "code": 418, "reason": "Teapot"}, "warnings": []string{"beware"}}
	})
	v.answer("/plainly-no", func(gjson.Result) map[string]any { return map[string]any{"allowed": false} })
	for _, c := range []struct {
		hook string
		want exchange
	}{
		{v.webhook("/no", rules, ""), exchange{do: create(0, "").do, body: create(0, "").body, code: 418, answer: says{"Warning": `299 - "beware"`},
			says: says{"message": `admission webhook "no.example.com" denied the request: because`, "reason": "Teapot"}}},
		{v.webhook("/plainly-no", rules, ""), create(400, `admission webhook "plainly-no.example.com" denied the request without explanation`)},
		{v.webhook("/down", rules, `"failurePolicy":"Ignore"`), create(201, "")},
		{v.webhook("/down", rules, ""), create(500, `Internal error occurred: failed calling webhook "down.example.com": failed to call webhook: an error on the server ("down") has prevented the request from succeeding`)},
		{strings.Replace(v.webhook("/no", rules, ""), `"sideEffects":"None"`, `"sideEffects":"NoneOnDryRun"`, 1), create(418, "")},
		{v.webhook("/no", rules, `"matchConditions":[{"name":"c","expression":"object.metadata.name == 'b'"}]`), create(201, "")},
		{v.webhook("/no", rules, `"matchConditions":[{"name":"c","expression":"object.metadata.name == 'a'"}]`), create(418, "")},
		{v.webhook("/no", rules, `"matchConditions":[{"name":"c","expression":"object.none.at.all == 1"}]`), create(403, "")},
		{v.webhook("/no", rules, `"objectSelector":{"matchLabels":{"a":"b"}}`), create(201, "")},
		{v.webhook("/no", rules, `"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"test"}}`), create(418, "")},
		{v.webhook("/no", rules, `"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"other"}}`), create(201, "")},
		{v.webhook("/no", strings.Replace(rules, `[{`, `[{"scope":"Cluster",`, 1), ""), create(201, "")},
		{strings.Replace(v.webhook("/no", rules, ""), `Versions":["v1"]}`, `Versions":["v2","v1beta1"]}`, 1), create(418, "")},
	} {
		for _, configurations := range []string{mutatingConfigurations, validatingConfigurations} {
			a.run(exchange{do: "POST " + configurations, body: webhooks("w", c.hook), code: 201})
			c.want.shows = c.hook
			a.run(c.want, exchange{do: "DELETE " + configurations + "/w", code: 200})
		}
	}
	metrics := a.send(exchange{do: "GET /metrics"}).Body.String()
	for _, counted := range []string{`apiserver_admission_webhook_request_total{code="418",name="no.example.com",operation="CREATE",rejected="true",type="admit"}`,
		`apiserver_admission_webhook_fail_open_count{name="down.example.com",type="validating"}`,
		`apiserver_admission_controller_admission_duration_seconds_count{name="MutatingAdmissionWebhook",`} {
		if !strings.Contains(metrics, counted) {
			t.Errorf("not counted: %s", counted)
		}
	}
	for _, asked := range v.take() {
		if !asked.request.Get("dryRun").Bool() || asked.request.Get("userInfo.username").Str != "admin" || asked.request.Get("object.metadata.name").Str != "a" {
			t.Errorf("asked %s", asked.review.Raw)
		}
	}
}

// A webhook with side effects, as early releases could store one, is not called for a dry run, which then fails.
func TestWebhooksWithSideEffects(t *testing.T) {
	for _, effects := range []admissionregistration.SideEffectClass{admissionregistration.SideEffectClassSome, admissionregistration.SideEffectClassUnknown} {
		a, v := newAPI(t), newReviewer(t)
		typ, _ := a.registry.Catalog().Type("validatingwebhookconfigurations.admissionregistration.k8s.io")
		url := v.URL + "/v"
		draft, err := typ.NewDraft(t.Context(), &admissionregistration.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "v"},
			Webhooks: []admissionregistration.ValidatingWebhook{{Name: "v.example.com", SideEffects: &effects, AdmissionReviewVersions: []string{"v1"},
				ClientConfig: admissionregistration.WebhookClientConfig{URL: &url, CABundle: pemOf(v.Server)}, FailurePolicy: new(admissionregistration.FailurePolicyType("Ignore")),
				NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{}, MatchPolicy: new(admissionregistration.MatchPolicyType("Equivalent")),
				Rules: []admissionregistration.RuleWithOperations{{Operations: []admissionregistration.OperationType{"CREATE"},
					Rule: admissionregistration.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}}}}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.store.Commit(t.Context(), resources.Write{Op: resources.Create, Key: typ.KeyOf("", "v"), Draft: draft}); err != nil {
			t.Fatal(err)
		}
		a.run(exchange{do: "POST /api/v1/namespaces/test/configmaps?dryRun=All", body: `{"metadata":{"name":"a"}}`, code: 400,
			says: says{"message": `admission webhook "v.example.com" does not support dry run`}},
			exchange{do: "POST /api/v1/namespaces/test/secrets?dryRun=All", body: `{"metadata":{"name":"a"}}`, code: 201})
		v.wants(t, string(effects))
		a.run(exchange{do: "POST /api/v1/namespaces/test/configmaps", body: `{"metadata":{"name":"a"}}`, code: 201})
		if n := len(v.take()); n != 1 {
			t.Errorf("%s: %d calls", effects, n)
		}
	}
}

// A webhook for one version of a resource is called for writes in all of them, with objects in its version, and its changes are converted to the
// request's version.
func TestWebhooksOfEquivalentVersions(t *testing.T) {
	a, v := newAPI(t), newReviewer(t)
	v.patches("/mutate", `[{"op":"replace","path":"/spec/targetCPUUtilizationPercentage","value":42}]`)
	a.run(exchange{do: "POST " + mutatingConfigurations, code: 201, body: webhooks("m", v.webhook("/mutate", ruleFor("autoscaling", "v1", "horizontalpodautoscalers"), ""))},
		exchange{do: "POST " + validatingConfigurations, code: 201, body: webhooks("v", v.webhook("/exact", ruleFor("autoscaling", "v1", "horizontalpodautoscalers"), `"matchPolicy":"Exact"`))},
		exchange{do: "POST /apis/autoscaling/v2/namespaces/test/horizontalpodautoscalers", code: 201,
			body: `{"metadata":{"name":"h"},"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"},"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":7}}}]}}`,
			says: says{"spec.metrics.0.resource.target.averageUtilization": "42"}})
	asked := v.take()
	if len(asked) != 1 || asked[0].request.Get("kind.version").Str != "v1" || asked[0].request.Get("requestKind.version").Str != "v2" ||
		asked[0].request.Get("object.apiVersion").Str != "autoscaling/v1" {
		t.Errorf("asked %v", asked)
	}
}

// Custom resources from webhooks are pruned, defaulted and validated by the schema, in the request's version.
func TestWebhooksOfCustomResources(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, a *api) {
		a.TB = t
		v := newReviewer(t)
		v.patches("/mutate", `[{"op":"add","path":"/spec/replicas","value":4},{"op":"add","path":"/spec/unknown","value":4},{"op":"remove","path":"/spec/color"}]`)
		a.run(exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", widgetSpec, true), widgetVersion("v2", widgetSpec, false)), code: 201},
			exchange{do: "POST " + mutatingConfigurations, code: 201, body: webhooks("m", v.webhook("/mutate", ruleFor("example.com", "v2", "widgets"), ""))})
		a.until("mutatingwebhookconfigurations.admissionregistration.k8s.io", "every server knows of the webhook", func() bool {
			for range len(a.registries) {
				_, answer := a.request("POST", widgets+"?dryRun=All", widget("a", `{"size":1,"color":"blue"}`), nil)
				if gjson.Get(answer, "spec.replicas").Int() != 4 {
					return false
				}
			}
			return true
		})
		a.run(exchange{do: "POST " + widgets, body: widget("a", `{"size":1,"color":"blue"}`), code: 201,
			says: says{"apiVersion": "example.com/v1", "spec.replicas": "4", "spec.unknown": "-", "spec.color": "red"}})
		v.patches("/mutate", `[{"op":"add","path":"/spec/size","value":70}]`)
		a.run(exchange{do: "PATCH " + widgetsAsV2 + "/a", header: asMergePatch, body: `{"spec":{"size":2}}`, code: 422})
	})
}

// Metadata of custom resources from webhooks keeps only fields of ObjectMeta, so that it can be written again.
func TestWebhooksOfCustomMetadata(t *testing.T) {
	a, v := newAPI(t), newReviewer(t)
	v.patches("/mutate", `[{"op":"add","path":"/metadata/zip","value":"x"},{"op":"add","path":"/metadata/annotations","value":{"k":null,"a":"b"}},{"op":"add","path":"/metadata/finalizers","value":[]}]`)
	a.run(exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", widgetSpec, true)), code: 201},
		exchange{do: "POST " + mutatingConfigurations, code: 201, body: webhooks("m", v.webhook("/mutate", ruleFor("example.com", "v1", "widgets"), ""))},
		exchange{do: "POST " + widgets, body: widget("a", `{"size":1}`), code: 201,
			says: says{"metadata.zip": "-", "metadata.annotations": `{"a":"b","k":""}`, "metadata.finalizers": "-", "metadata.name": "a"}},
		exchange{do: "PATCH " + widgets + "/a?fieldValidation=Strict", header: asMergePatch, body: `{"spec":{"size":2}}`, code: 200, says: says{"metadata.zip": "-", "spec.size": "2"}})
}

// Deleting a namespace has its uid as a precondition, and a review names an object as the request did, even after a webhook has renamed it.
func TestWebhooksSeeWhatWasMeant(t *testing.T) {
	a, v := newAPI(t), newReviewer(t)
	v.patches("/mutate", `[{"op":"replace","path":"/metadata/name","value":"other"}]`)
	v.answer("/validate", func(gjson.Result) map[string]any { return map[string]any{"allowed": true} })
	a.run(exchange{do: "POST /api/v1/namespaces", body: `{"metadata":{"name":"gone"}}`, code: 201, keep: says{"uid": "metadata.uid"}},
		exchange{do: "POST " + mutatingConfigurations, code: 201, body: webhooks("m", v.webhook("/mutate", ruleFor("", "v1", "configmaps"), ""))},
		exchange{do: "POST " + validatingConfigurations, code: 201, body: webhooks("v", v.webhook("/validate", `[{"apiGroups":[""],"apiVersions":["v1"],"operations":["*"],"resources":["configmaps","namespaces"]}]`, ""))},
		exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"orig"}}`, code: 201, says: says{"metadata.name": "other"}},
		exchange{do: "DELETE /api/v1/namespaces/gone", code: 200})
	asked := v.take()
	if len(asked) != 3 || asked[1].request.Get("name").Str != "orig" || asked[1].request.Get("object.metadata.name").Str != "other" ||
		asked[2].request.Get("options.preconditions.uid").Str != a.kept["uid"] {
		t.Errorf("asked %v", asked)
	}
}

// A metadata patch is applied in the stored version. If a webhook has another version, the result is converted back to the stored one, and is
// validated if the webhook changes more than metadata.
func TestWebhooksOfMetadataPatches(t *testing.T) {
	a, hook, v := newAPI(t), newConverter(t), newReviewer(t)
	partial := says{"Content-Type": "application/merge-patch+json", "Accept": partially("application/json", "")["Accept"]}
	patch := exchange{do: "PATCH " + widgetsAsV2 + "/a", header: partial, body: `{"metadata":{"labels":{"a":"b"}}}`, code: 200,
		says: says{"metadata.labels.a": "b"}}
	v.patches("/mutate", `[{"op":"add","path":"/metadata/labels/from","value":"webhook"}]`)
	a.run(exchange{do: "POST " + definitions, body: hook.definition("v1"), code: 201},
		exchange{do: "POST " + widgets, body: widget("a", `{"one":1}`), code: 201},
		exchange{do: "POST " + mutatingConfigurations, code: 201, body: webhooks("m", v.webhook("/mutate", ruleFor("example.com", "v2", "widgets"), ""))},
		patch, exchange{do: "GET " + widgets + "/a", code: 200, says: says{"spec.one": "1", "metadata.labels.from": "webhook", "metadata.labels.a": "b"}})
	asked := v.take()
	if len(asked) != 1 || asked[0].request.Get("object.spec.other").Int() != 1 || asked[0].request.Get("oldObject.apiVersion").Str != "example.com/v2" {
		t.Errorf("asked %v", asked)
	}
	v.patches("/mutate", `[{"op":"replace","path":"/spec/other","value":7}]`)
	patch.body = `{"metadata":{"labels":{"c":"d"}}}`
	patch.says = nil
	a.run(patch, exchange{do: "GET " + widgets + "/a", code: 200, says: says{"apiVersion": "example.com/v1", "spec.one": "7", "metadata.labels.c": "d", "metadata.generation": "2"}})
	v.patches("/mutate", `[{"op":"replace","path":"/spec/other","value":"seven"}]`)
	patch.body, patch.code = `{"metadata":{"labels":{"c":"e"}}}`, http.StatusUnprocessableEntity
	a.run(patch)
}

// Webhooks and policies get the object in the version of the request, so a delete and a patch of finalizers need the conversion webhook where one of
// them matches. In the stored version they need none.
func TestWebhooksOfDeletedObjects(t *testing.T) {
	a, hook, v := newAPI(t), newConverter(t), newReviewer(t)
	a.run(exchange{do: "POST " + definitions, body: hook.definition("v1"), code: 201},
		exchange{do: "POST " + widgets, body: finalized("a"), code: 201},
		exchange{do: "POST " + validatingConfigurations, code: 201, body: webhooks("v", v.webhook("/validate", ruleFor("example.com", "*", "widgets"), ""))})
	hook.down()
	const patch = `{"metadata":{"finalizers":null}}`
	a.run(exchange{do: "DELETE " + widgetsAsV2 + "/a", code: 500},
		exchange{do: "DELETE " + widgets + "/a", code: 200},
		exchange{do: "PATCH " + widgetsAsV2 + "/a", header: asMergePatch, body: patch, code: 500},
		exchange{do: "PATCH " + widgets + "/a", header: asMergePatch, body: patch, code: 200},
		exchange{do: "GET " + widgets + "/a", code: 404})
	asked := v.take()
	if len(asked) != 2 || asked[0].request.Get("operation").Str != "DELETE" || asked[1].request.Get("oldObject.apiVersion").Str != "example.com/v1" {
		t.Errorf("asked %v", asked)
	}
}
