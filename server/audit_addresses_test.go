package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The addresses that Services allocate and free are recorded as requests of the server's own, with the outcome of the write that stores them.
func TestAuditOfAddresses(t *testing.T) {
	s, kept := audited(t, `
- level: RequestResponse
  omitStages: [RequestReceived]
  resources: [{group: networking.k8s.io, resources: [ipaddresses]}]
- {level: None}`, nil)
	h := s.Handler()
	const services = "/api/v1/namespaces/ns/services"
	const service = `{"metadata":{"name":"%s"},"spec":{"clusterIP":"10.46.0.3","ports":[{"port":%d}]}}`
	for _, c := range []struct {
		method, path, body string
		code               int
		want               []string
	}{
		{"POST", "/api/v1/namespaces", aNamespace, 201, nil},
		{"POST", "/apis/networking.k8s.io/v1/servicecidrs", `{"metadata":{"name":"range"},"spec":{"cidrs":["10.46.0.0/28"]}}`, 201, nil},
		{"POST", services + "?dryRun=All", fmt.Sprintf(service, "dry", 80), 201, nil},
		{"POST", services, fmt.Sprintf(service, "invalid", -1), 422, []string{"create /apis/networking.k8s.io/v1/ipaddresses 10.46.0.3 422"}},
		{"POST", services, fmt.Sprintf(service, "a", 80), 201, []string{"create /apis/networking.k8s.io/v1/ipaddresses 10.46.0.3 201 stored"}},
		{"POST", services, fmt.Sprintf(service, "b", 80), 422, nil},
		{"DELETE", services + "/a?dryRun=All", "", 200, nil},
		{"DELETE", services + "/a", "", 200, []string{"delete /apis/networking.k8s.io/v1/ipaddresses/10.46.0.3 10.46.0.3 200 removed"}},
	} {
		if w := ask(h, c.method, c.path, c.body); w.Code != c.code {
			t.Fatalf("%s %s: %d %s", c.method, c.path, w.Code, w.Body)
		}
		var got []string
		for _, e := range kept.take() {
			about := fmt.Sprint(e.Verb, " ", e.RequestURI, " ", e.ObjectRef.Name, " ", e.ResponseStatus.Code)
			if e.ResponseObject != nil && strings.Contains(string(e.ResponseObject.Raw), `"resourceVersion":"`) {
				about += " stored"
			}
			if d := e.ResponseStatus.Details; e.ResponseStatus.Status == metav1.StatusSuccess && d != nil && d.UID != "" {
				about += " removed"
			}
			if got = append(got, about); e.User.Username != "system:apiserver" || e.AuditID == "id" {
				t.Errorf("%s is by %s, with the ID %s", about, e.User.Username, e.AuditID)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", c.method, c.path, diff)
		}
	}
}
