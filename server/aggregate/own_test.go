package aggregate_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// An APIService cannot hand APIServices themselves over to another server, in no version: otherwise nobody could delete it. The requests of its group
// are answered here, as by kube-apiserver, and discovery has what is served here. The same holds for the core group. The other server is not asked.
func TestGroupsThatAreServedHere(t *testing.T) {
	f := newFixture(t)
	asked := func(r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/") || strings.Contains(r.URL.Path, "apiregistration") {
			t.Errorf("the other server is asked for %s", r.URL.Path)
		}
	}
	f.ext.before.Store(&asked)
	f.service()
	for _, version := range []string{"v1", "v2"} {
		f.must("POST", apiServices, fmt.Sprintf(`{"metadata":{"name":"%s.apiregistration.k8s.io"},"spec":{"group":"apiregistration.k8s.io","version":%q,
			"groupPriorityMinimum":2000,"versionPriority":10,"caBundle":%q,"service":{"namespace":"default","name":"ext","port":%d}}}`,
			version, version, base64.StdEncoding.EncodeToString(f.ext.bundle), f.ext.port()))
	}
	const name = apiServices + "/v1.apiregistration.k8s.io"
	f.must("PATCH", apiServices+"/v1.", fmt.Sprintf(`{"spec":{"insecureSkipTLSVerify":true,"service":{"namespace":"default","name":"ext","port":%d}}}`, f.ext.port()),
		"Content-Type", "application/merge-patch+json")
	f.apiService()
	f.condition("Passed")
	f.conditionOf("v1.apiregistration.k8s.io", "Passed")
	f.conditionOf("v1.", "Passed")
	f.discovered("known", `items.#(metadata.name=="apples.example.com").versions.0.freshness`, func(v gjson.Result) bool { return v.Str == "Current" })
	if code, answer := f.send("GET", name, ""); code != http.StatusOK || gjson.Get(answer, "kind").Str != "APIService" {
		t.Errorf("%d %s", code, answer)
	}
	for _, path := range []string{"/apis/apiregistration.k8s.io/v2", "/apis/apiregistration.k8s.io/v2/apiservices"} {
		if code, answer := f.send("GET", path, ""); code != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, code, answer)
		}
	}
	const group = `items.#(metadata.name=="apiregistration.k8s.io").versions`
	_, answer := f.send("GET", "/apis", "", "Accept", aggregated)
	if n := gjson.Get(answer, group+".#").Int(); n != 1 || gjson.Get(answer, group+".0.resources.0.resource").Str != "apiservices" {
		t.Errorf("discovery has %s", gjson.Get(answer, group))
	}
	f.must("DELETE", name, "")
}
