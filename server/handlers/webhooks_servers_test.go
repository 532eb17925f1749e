package handlers_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/rowlock/rowlock/server/servertest"
	"github.com/rowlock/rowlock/sqlstore"
)

// A webhook behind a Service is called at the Service's address, with its DNS name for TLS.
func TestWebhooksBehindServices(t *testing.T) {
	a, v := newAPI(t), newReviewer(t)
	host, port, err := net.SplitHostPort(strings.TrimPrefix(v.URL, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	rules := ruleFor("", "v1", "configmaps")
	hook := strings.Replace(v.webhook("/no", rules, ""), fmt.Sprintf(`"url":%q`, v.URL+"/no"),
		`"service":{"namespace":"test","name":"hook","path":"/no","port":`+port+`}`, 1)
	v.answer("/no", func(gjson.Result) map[string]any { return map[string]any{"allowed": false} })
	create := exchange{do: "POST /api/v1/namespaces/test/configmaps?dryRun=All", body: `{"metadata":{"name":"a"}}`, code: 500,
		says: says{"message": `Internal error occurred: failed calling webhook "no.example.com": failed to call webhook: Post "https://hook.test.svc:` + port +
			`/no?timeout=10s": service "hook" not found`}}
	a.run(exchange{do: "POST " + validatingConfigurations, code: 201, body: webhooks("v", hook)}, create)
	// An ExternalName is used unchanged; the certificate of the test's server is only for example.com, which is not the Service's name.
	a.run(exchange{do: "POST /api/v1/namespaces/test/services", code: 201,
		body: `{"metadata":{"name":"hook"},"spec":{"type":"ExternalName","externalName":"` + host + `","ports":[{"port":` + port + `}]}}`})
	create.says = says{"message": `Internal error occurred: failed calling webhook "no.example.com": failed to call webhook: Post "https://hook.test.svc:` + port +
		`/no?timeout=10s": tls: failed to verify certificate: x509: certificate is valid for example.com, *.example.com, not hook.test.svc`}
	a.run(create)
}

// A webhook configuration acknowledged by one server applies there to the very next request, and on others as soon as their reads include it.
func TestWebhooksOnServers(t *testing.T) {
	servertest.OnServers(t, 2, func(t *testing.T, stores []*sqlstore.Store) {
		v := newReviewer(t)
		v.answer("/no", func(gjson.Result) map[string]any { return map[string]any{"allowed": false} })
		var servers []*api
		for _, store := range stores {
			servers = append(servers, newServer(t, utilfeature.DefaultMutableFeatureGate.DeepCopy(), store))
		}
		refused := func(a *api) bool {
			code, _ := a.request("POST", "/api/v1/namespaces/default/configmaps?dryRun=All", `{"metadata":{"name":"a"}}`, nil)
			return code == http.StatusBadRequest
		}
		for round := range 10 {
			here, there := servers[round%2], servers[(round+1)%2]
			here.run(exchange{do: "POST " + validatingConfigurations, code: 201, body: webhooks("v", v.webhook("/no", ruleFor("", "v1", "configmaps"), ""))})
			if !refused(here) {
				t.Fatal("the server that made the webhook did not ask it")
			}
			there.until("validatingwebhookconfigurations.admissionregistration.k8s.io", "the other server knows", func() bool {
				shown := there.send(exchange{do: "GET " + validatingConfigurations + "/v?resourceVersion=0"}).Code == http.StatusOK
				if shown && !refused(there) {
					t.Fatal("a read has shown the configuration, and the webhook was not asked")
				}
				return shown
			})
			there.run(exchange{do: "DELETE " + validatingConfigurations + "/v", code: 200})
			if refused(there) {
				t.Fatal("the server that deleted the webhook asked it")
			}
			here.until("validatingwebhookconfigurations.admissionregistration.k8s.io", "the other server knows", func() bool { return !refused(here) })
		}
	})
}
