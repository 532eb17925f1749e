package handlers_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// A policy that exceeds its cost budget is not evaluated further, and params may be in another namespace.
func TestPolicyLimits(t *testing.T) {
	a := newAPI(t)
	long := strings.Repeat("v", 20_000) // the cost of a substring search is the product of the lengths, however long it takes
	large := fmt.Sprintf(`{"metadata":{"name":"a"},"data":{"a":%q,"b":"","c":""}}`, long)
	const maps = "/api/v1/namespaces/test/configmaps"
	a.run(exchange{do: "POST " + validatingPolicies, code: 201, body: policy("searched", "", "configmaps",
		`"validations":[{"expression":"object.data.all(a, object.data[a].contains(object.data[a]))"}]`)},
		exchange{do: "POST " + validatingBindings, code: 201, body: binding("b", "searched", `,"validationActions":["Deny"]`)},
		exchange{do: "POST " + maps + "?dryRun=All", body: `{"metadata":{"name":"a"},"data":{"a":"b"}}`, code: 201})
	w := a.send(exchange{do: "POST " + maps + "?dryRun=All", body: large})
	if message := gjson.GetBytes(w.Body.Bytes(), "message").Str; w.Code != 422 || !strings.Contains(message, "cost") {
		t.Errorf("%d %s", w.Code, message)
	}
	a.run(exchange{do: "DELETE " + validatingPolicies + "/searched", code: 200},
		exchange{do: "POST /api/v1/namespaces/default/configmaps", body: `{"metadata":{"name":"most"},"data":{"most":"2"}}`, code: 201},
		exchange{do: "POST " + validatingPolicies, code: 201, body: policy("short", "", "configmaps",
			`"paramKind":{"apiVersion":"v1","kind":"ConfigMap"},"validations":[{"expression":"size(object.data) <= int(params.data.most)"}]`)},
		exchange{do: "POST " + validatingBindings, code: 201, body: binding("s", "short",
			`,"validationActions":["Deny"],"paramRef":{"name":"most","namespace":"default","parameterNotFoundAction":"Deny"}`)},
		exchange{do: "POST " + maps + "?dryRun=All", body: large, code: 422},
		exchange{do: "POST " + maps + "?dryRun=All", body: `{"metadata":{"name":"a"},"data":{"a":"b"}}`, code: 201})
}

// A webhook that does not respond in time has failed.
func TestWebhooksTimeout(t *testing.T) {
	a, v := newAPI(t), newReviewer(t)
	ended := make(chan struct{})
	v.answer("/slow", func(gjson.Result) map[string]any {
		<-ended
		return map[string]any{"allowed": true}
	})
	t.Cleanup(func() { close(ended) })
	create := exchange{do: "POST /api/v1/namespaces/test/configmaps?dryRun=All", body: `{"metadata":{"name":"a"}}`, code: 500, says: says{
		"message": `Internal error occurred: failed calling webhook "slow.example.com": failed to call webhook: Post "` + v.URL + `/slow?timeout=1s": context deadline exceeded`}}
	rules := ruleFor("", "v1", "configmaps")
	a.run(exchange{do: "POST " + validatingConfigurations, code: 201, body: webhooks("w", v.webhook("/slow", rules, `"timeoutSeconds":1`))}, create,
		exchange{do: "DELETE " + validatingConfigurations + "/w", code: 200},
		exchange{do: "POST " + validatingConfigurations, code: 201, body: webhooks("w", v.webhook("/slow", rules, `"timeoutSeconds":1,"failurePolicy":"Ignore"`))})
	create.code, create.says = 201, nil
	a.run(create)
}

// Deleting an object again within an unchanged or longer grace period calls no webhooks.
func TestWebhooksOfPendingDeletion(t *testing.T) {
	a, v := newAPI(t), newReviewer(t)
	const pod = "/api/v1/namespaces/test/pods/p"
	a.run(exchange{do: "POST /api/v1/namespaces/test/pods", body: podOf("p", `"nodeName":"n",`), code: 201},
		exchange{do: "POST " + validatingConfigurations, code: 201, body: webhooks("v", v.webhook("/v", ruleFor("", "v1", "pods"), ""))},
		exchange{do: "DELETE " + pod, code: 200})
	v.wants(t, "a deletion with a grace period", "v DELETE v1 pods Pod test/p old DeleteOptions")
	a.run(exchange{do: "DELETE " + pod, code: 200})
	v.wants(t, "the same again")
	a.run(exchange{do: "DELETE " + pod + "?gracePeriodSeconds=5", code: 200})
	v.wants(t, "a shorter period", "v DELETE v1 pods Pod test/p old DeleteOptions")
}
