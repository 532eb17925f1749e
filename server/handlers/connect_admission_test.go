package handlers_test

import (
	"net/http"
	"strings"
	"testing"
)

// Webhooks are asked about connections and the resizing of Pods as about other writes: before the kubelet gets the request.
func TestWebhooksOfConnections(t *testing.T) {
	a, v := newAPI(t), newReviewer(t)
	reached := make(chan string, 100)
	a.startKubelet(func(w http.ResponseWriter, r *http.Request) {
		reached <- r.URL.Path
		http.Error(w, "no", http.StatusTeapot)
	})
	a.proxyNodes(func(http.ResponseWriter, *http.Request) { reached <- "/proxy" })
	a.run(exchange{do: "PATCH /api/v1/nodes/n/status", header: asMergePatch, body: `{"status":{"allocatable":{"cpu":"8"}}}`, code: 200},
		exchange{do: podsOfTest, code: 201, body: `{"metadata":{"name":"r"},"spec":{"nodeName":"n","containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"1"}}}]}}`},
		exchange{do: "POST " + mutatingConfigurations, body: webhooks("m", v.webhook("/mutate", everything, "")), code: 201},
		exchange{do: "POST " + validatingConfigurations, body: webhooks("v", v.webhook("/validate", everything, "")), code: 201})
	const pod = "/api/v1/namespaces/test/pods/p"
	requests := []struct{ do, want string }{
		{"POST " + pod + "/exec?command=x&container=c", "CONNECT v1 pods/exec PodExecOptions test/p new"},
		{"GET " + pod + "/exec?command=x&container=c", "CONNECT v1 pods/exec PodExecOptions test/p new"},
		{"POST " + pod + "/attach?container=c", "CONNECT v1 pods/attach PodAttachOptions test/p new"},
		{"POST " + pod + "/portforward", "CONNECT v1 pods/portforward PodPortForwardOptions test/p new"},
		{"GET " + pod + "/proxy/path", "CONNECT v1 pods/proxy PodProxyOptions test/p new"},
		{"DELETE " + pod + "/proxy", "CONNECT v1 pods/proxy PodProxyOptions test/p new"},
		{"GET /api/v1/nodes/n/proxy/path", "CONNECT v1 nodes/proxy NodeProxyOptions /n new"},
		{"GET " + pod + "/log", ""},
	}
	for _, r := range requests {
		a.send(exchange{do: r.do})
		if r.want == "" {
			v.wants(t, r.do)
			continue
		}
		v.wants(t, r.do, both(r.want)...)
	}
	a.run(exchange{do: "PATCH /api/v1/namespaces/test/pods/r/resize", header: says{"Content-Type": "application/strategic-merge-patch+json"},
		body: `{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"2"}}}]}}`, code: 200})
	v.wants(t, "resize", both("UPDATE v1 pods/resize Pod test/r new old UpdateOptions")...)

	// The kubelet does not get what a policy or a webhook refuses.
	options := strings.Replace(policy("p", "", "pods/exec", `"validations":[{"expression":"object.container == 'c' && object.command == ['ls']"}]`), `"CREATE","UPDATE"`, `"CONNECT"`, 1)
	a.run(exchange{do: "POST " + validatingPolicies, body: options, code: 201},
		exchange{do: "POST " + validatingBindings, body: binding("b", "p", `,"validationActions":["Deny"]`), code: 201})
	for len(reached) > 0 {
		<-reached
	}
	a.run(exchange{do: "POST " + pod + "/exec?command=rm&container=c", code: 422, says: says{
		"message": `pods "p" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed expression: object.container == 'c' && object.command == ['ls']`}})
	a.run(exchange{do: "DELETE " + validatingBindings + "/b", code: 200})
	v.answer("/validate", refuses)
	for _, r := range requests {
		if r.want == "" {
			continue
		}
		a.run(exchange{do: r.do, code: 400, says: says{"message": `admission webhook "validate.example.com" denied the request without explanation`}})
	}
	if len(reached) > 0 {
		t.Errorf("%s was reached", <-reached)
	}
}
