package handlers_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/rowlock/rowlock/resources/bounded"
)

// A response of a webhook that exceeds the limit counts as a failure, whatever it says: failurePolicy decides.
func TestLongAnswersOfWebhooks(t *testing.T) {
	a, v := newAPI(t), newReviewer(t)
	v.answer("/long", func(gjson.Result) map[string]any {
		return map[string]any{"allowed": true, "status": map[string]any{"message": strings.Repeat("x", bounded.MostBytes)}}
	})
	rules := ruleFor("", "v1", "configmaps")
	create := exchange{do: "POST /api/v1/namespaces/test/configmaps?dryRun=All", body: `{"metadata":{"name":"a"}}`}
	for _, configurations := range []string{mutatingConfigurations, validatingConfigurations} {
		for policy, code := range map[string]int{"Ignore": 201, "Fail": 500} {
			e := create
			e.shows, e.code = configurations+" "+policy, code
			if policy == "Fail" {
				e.says = says{"message": `Internal error occurred: failed calling webhook "long.example.com": failed to call webhook: ` +
					"unexpected error when reading response body. Please retry. Original error: " + bounded.ErrTooLong.Error()}
			}
			a.run(exchange{do: "POST " + configurations, body: webhooks("w", v.webhook("/long", rules, fmt.Sprintf(`"failurePolicy":%q`, policy))), code: 201},
				e, exchange{do: "DELETE " + configurations + "/w", code: 200})
		}
	}
}

// The same holds for a conversion webhook. If its response for many objects is too long, it is called for each object.
func TestLongAnswersOfConversion(t *testing.T) {
	a, hook := newAPI(t), newConverter(t)
	a.run(exchange{do: "POST " + definitions, body: hook.definition("v1"), code: 201})
	for _, name := range []string{"a", "b"} {
		a.run(exchange{do: "POST " + widgets, body: widget(name, `{"one":1}`), code: 201, keep: keptAs(name)})
	}
	long := func(when func(review gjson.Result) bool) {
		hook.answers(func(w http.ResponseWriter, review gjson.Result) bool {
			if when(review) {
				fmt.Fprint(w, strings.Repeat(" ", bounded.MostBytes))
			}
			return false
		})
	}
	long(func(gjson.Result) bool { return true })
	a.run(exchange{do: "PATCH " + widgetsAsV2 + "/a", header: asMergePatch, body: `{}`, code: 500, says: says{"message": undecodable("a",
		"conversion webhook for example.com/v1, Kind=Widget failed: unexpected error when reading response body. Please retry. Original error: "+bounded.ErrTooLong.Error())}})
	long(func(review gjson.Result) bool { return review.Get("request.objects.#").Int() > 1 })
	a.run(exchange{do: "GET " + widgetsAsV2, code: 200, says: says{"items.#.spec.other": "[1,1]"}})
	long(func(gjson.Result) bool { return false })
}

// The same holds for the image policy webhook.
func TestLongAnswersOfImagePolicy(t *testing.T) {
	images := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"apiVersion":"imagepolicy.k8s.io/v1alpha1","kind":"ImageReview","status":{"allowed":true}}`, strings.Repeat(" ", bounded.MostBytes))
	}))
	t.Cleanup(images.Close)
	a := configured(t, map[string]string{"ImagePolicyWebhook": fmt.Sprintf(`{imagePolicy: {kubeConfigFile: %s, allowTTL: 30, denyTTL: 30, retryBackoff: 500, defaultAllow: false}}`,
		kubeconfigFor(t, images, "u", "secret"))}, "ImagePolicyWebhook")
	e := exchange{do: podsOfTest, body: podOf("a", ""), code: 403}
	if got := gjson.Get(a.send(e).Body.String(), "message").Str; !strings.Contains(got, bounded.ErrTooLong.Error()) {
		t.Errorf("said %q", got)
	}
}
