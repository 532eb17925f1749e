package aggregate_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/rowlock/rowlock/resources/bounded"
)

// A webhook of this server may be one of an extension: its answer is bounded within the process, too.
func TestEndlessAnswerOfOwnWebhook(t *testing.T) {
	f := newFixture(t)
	f.register()
	f.condition("Passed")
	f.must("POST", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", `{"metadata":{"name":"own"},"webhooks":[{
		"name":"own.example.org","sideEffects":"None","admissionReviewVersions":["v1"],
		"rules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["configmaps"]}],
		"clientConfig":{"service":{"namespace":"default","name":"kubernetes","path":"`+apples+`/endless"}}}]}`)
	code, answer := f.send("POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"a"}}`)
	if message := gjson.Get(answer, "message").Str; code != http.StatusInternalServerError || !strings.Contains(message, bounded.ErrTooLong.Error()) {
		t.Errorf("%d %s", code, answer)
	}
}
