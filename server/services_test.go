package server_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/rowlock/rowlock/resources/behind"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/controlplane"
	"github.com/rowlock/rowlock/server/servertest"
)

// A webhook behind a Service is called at the Service's address or, with --enable-aggregator-routing, at those of its ready endpoints, at the port
// with the name of the Service's port.
func TestServicesOfWebhooks(t *testing.T) {
	toService, c := servertest.New(t, nil)
	toEndpoints, _ := servertest.New(t, func(other *server.Config) {
		other.Registry, other.Store, other.Pipeline, other.ServiceRouting = c.Registry, c.Store, c.Pipeline, behind.ToEndpoints
	})
	h := toService.Handler()
	plane := controlplane.New(controlplane.Config{Registry: c.Registry, Store: c.Store, Pipeline: c.Pipeline, Logger: c.Logger, Front: toService})
	if err := errors.Join(plane.Bootstrap(t.Context()), plane.BootstrapServices(t.Context(), controlplane.Network{ServiceRanges: builtin.DefaultServiceNetwork().Ranges, Port: 6443})); err != nil {
		t.Fatal(err)
	}
	create := func(path, body string) string {
		t.Helper()
		w := ask(h, http.MethodPost, path, body)
		if w.Code != http.StatusCreated {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		return w.Body.String()
	}
	create("/api/v1/namespaces", `{"metadata":{"name":"hooks"}}`)
	service := create("/api/v1/namespaces/hooks/services", `{"metadata":{"name":"h"},"spec":{"ports":[{"name":"other","port":80},{"name":"https","port":443,"targetPort":9443}]}}`)
	if got, err := toService.ResolveService("hooks", "h", 443); err != nil || got.String() != "https://"+gjson.Get(service, "spec.clusterIP").Str+":443" {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := toEndpoints.ResolveService("hooks", "h", 443); err == nil {
		t.Errorf("without endpoints: %v", got)
	}
	slice := func(name, service, port, endpoints string) {
		t.Helper()
		create("/apis/discovery.k8s.io/v1/namespaces/hooks/endpointslices", fmt.Sprintf(
			`{"metadata":{"name":%q,"labels":{"kubernetes.io/service-name":%q}},"addressType":"IPv4","ports":[%s],"endpoints":[%s]}`, name, service, port, endpoints))
	}
	const https, other = `{"name":"https","port":9443}`, `{"name":"other","port":8080}`
	slice("a", "h", other+","+https, `{"addresses":["192.0.2.1"]},{"addresses":["192.0.2.2"],"conditions":{"ready":false}}`)
	slice("b", "h", https, `{"addresses":["192.0.2.3"],"conditions":{"ready":true}}`)
	slice("c", "h", other, `{"addresses":["192.0.2.4"]}`)
	slice("d", "another", https, `{"addresses":["192.0.2.5"]}`)
	var found []string
	for range 200 {
		got, err := toEndpoints.ResolveService("hooks", "h", 443)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(found, got.String()) {
			found = append(found, got.String())
		}
	}
	if slices.Sort(found); !slices.Equal(found, []string{"https://192.0.2.1:9443", "https://192.0.2.3:9443"}) {
		t.Errorf("%q", found)
	}
	for _, s := range []*server.Server{toService, toEndpoints} {
		if got, err := s.ResolveService("hooks", "h", 444); err == nil {
			t.Errorf("a port that it does not have: %v", got)
		}
	}
}
