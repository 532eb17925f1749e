package server_test

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// A webhook behind default/kubernetes calls the server itself, whether or not that Service exists.
func TestWebhookOfTheServerItself(t *testing.T) {
	h := newServer(t, nil).Handler()
	send := func(method, path, body string) (int, string) {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Authorization", "known")
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	if w := get(h, "/api/v1/namespaces/default/services/kubernetes", "known"); w.Code == 200 {
		if code, body := send("DELETE", "/api/v1/namespaces/default/services/kubernetes", ""); code != 200 {
			t.Fatal(code, body)
		}
	}
	if code, body := send("POST", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", `{"metadata":{"name":"own"},"webhooks":[{
		"name":"own.example.org","sideEffects":"None","admissionReviewVersions":["v1"],
		"rules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["configmaps"]}],
		"clientConfig":{"service":{"namespace":"default","name":"kubernetes","path":"/nosuch"}}}]}`); code != 201 {
		t.Fatal(code, body)
	}
	const want = "the server could not find the requested resource"
	if code, body := send("POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"a"}}`); code != 500 || !strings.Contains(body, want) {
		t.Errorf("answered with %d %s, want %q", code, body, want)
	}
}

// A webhook that leads to the server and is called for its own requests fails, and does not recurse until its timeout.
func TestWebhookThatCausesItself(t *testing.T) {
	h := newServer(t, nil).Handler()
	const proxy = "/api/v1/namespaces/default/services/a/proxy"
	must(t, h, "known", "POST", "/api/v1/namespaces/default/services", `{"metadata":{"name":"a"},"spec":{"clusterIP":"None","ports":[{"port":80}]}}`)
	must(t, h, "known", "POST", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", `{"metadata":{"name":"own"},"webhooks":[{
		"name":"own.example.org","sideEffects":"None","admissionReviewVersions":["v1"],"timeoutSeconds":30,
		"rules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CONNECT"],"resources":["services/proxy"]}],
		"clientConfig":{"service":{"namespace":"default","name":"kubernetes","path":"`+proxy+`"}}}]}`)
	if code, body := send(h, "known", "POST", proxy, ""); code != 500 || !strings.Contains(body, "the server calls itself again and again") {
		t.Errorf("answered with %d %.1000s", code, body)
	}
}
