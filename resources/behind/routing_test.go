package behind_test

import (
	"fmt"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/discovery"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/behind"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/sqlstore/sqlitetest"
)

// Each routing finds the URL of each kind of Service, with and without ready endpoints. An EndpointSlice that cannot be read hides no other one.
func TestRouting(t *testing.T) {
	store, registry := sqlitetest.Open(t), resources.NewRegistry()
	registry.SetGroups(builtin.Groups())
	put := func(resource string, obj interface {
		runtime.Object
		metav1.Object
	}, replace ...string) {
		t.Helper()
		typ, _ := registry.Catalog().Type(resource)
		draft, err := typ.NewDraft(t.Context(), obj)
		if err != nil {
			t.Fatal(err)
		}
		draft.Data = []byte(strings.NewReplacer(replace...).Replace(string(draft.Data)))
		if _, err := store.Commit(t.Context(), resources.Write{Op: resources.Create, Key: typ.KeyOf("a", obj.GetName()), Draft: draft}); err != nil {
			t.Fatal(err)
		}
	}
	service := func(name string, spec core.ServiceSpec) {
		spec.Ports = []core.ServicePort{{Name: "https", Port: 443}}
		put(behind.ServicesResource, &core.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}, Spec: spec})
	}
	for _, kind := range []core.ServiceType{core.ServiceTypeClusterIP, core.ServiceTypeNodePort, core.ServiceTypeLoadBalancer} {
		for _, state := range []string{"ready", "unready", "ending", "empty", "unreadable"} {
			service(fmt.Sprint(kind, "-", state), core.ServiceSpec{Type: kind, ClusterIP: "192.0.2.1"})
		}
	}
	service("headless-ready", core.ServiceSpec{Type: core.ServiceTypeClusterIP, ClusterIP: "None"})
	service("headless-empty", core.ServiceSpec{Type: core.ServiceTypeClusterIP, ClusterIP: "None"})
	service("name-ready", core.ServiceSpec{Type: core.ServiceTypeExternalName, ExternalName: "example.com"})
	port, name := int32(8443), "https"
	slice := func(as, of string, ready bool, replace ...string) {
		ending := strings.HasSuffix(of, "-ending")
		put(behind.SlicesResource, &discovery.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: as, Labels: map[string]string{discoveryv1.LabelServiceName: of}},
			AddressType: discovery.AddressTypeIPv4, Ports: []discovery.EndpointPort{{Name: &name, Port: &port}},
			Endpoints: []discovery.Endpoint{{Addresses: []string{"192.0.2.9"}, Conditions: discovery.EndpointConditions{Ready: &ready, Serving: &ending, Terminating: &ending}}}}, replace...)
	}
	for _, of := range []string{"ClusterIP-ready", "NodePort-ready", "LoadBalancer-ready", "headless-ready", "name-ready", "ClusterIP-unready", "NodePort-unready", "LoadBalancer-unready",
		"ClusterIP-ending", "NodePort-ending", "LoadBalancer-ending"} {
		slice(of, of, strings.HasSuffix(of, "-ready"))
	}
	for _, of := range []string{"ClusterIP-ready", "ClusterIP-unreadable", "NodePort-unreadable", "LoadBalancer-unreadable"} {
		slice(of+"-damaged", of, true, `"IPv4"`, `123456`) // of the same length, so that the resourceVersion stays in its place
	}
	const cluster, endpoint, named = "https://192.0.2.1:443", "https://192.0.2.9:8443", "https://example.com:443"
	const unreadable = "json: cannot unmarshal"
	type urls struct{ toCluster, toEndpoints, toReady string }
	want := map[string]urls{
		"headless-ready": {`cannot route to service with ClusterIP "None"`, endpoint, endpoint},
		"headless-empty": {`cannot route to service with ClusterIP "None"`, `no endpoints available for service "headless-empty"`, `no endpoints available for service "headless-empty"`},
		"name-ready":     {named, `unsupported service type "ExternalName"`, named},
		"nosuch":         {`service "nosuch" not found`, `service "nosuch" not found`, `service "nosuch" not found`},
	}
	for _, kind := range []string{"ClusterIP", "NodePort", "LoadBalancer"} {
		want[kind+"-ready"] = urls{cluster, endpoint, endpoint}
		none := func(of string) string { return fmt.Sprintf("no endpoints available for service %q", of) }
		want[kind+"-unready"] = urls{cluster, none(kind + "-unready"), none(kind + "-unready")}
		want[kind+"-ending"] = urls{cluster, none(kind + "-ending"), cluster}
		want[kind+"-empty"] = urls{cluster, none(kind + "-empty"), cluster}
		want[kind+"-unreadable"] = urls{cluster, unreadable, unreadable}
	}
	l := behind.New(store, registry)
	for service, want := range want {
		resolve := func(to behind.Routing) string {
			url, err := l.Resolve(to, "a", service, 443)
			if err != nil {
				if strings.Contains(err.Error(), unreadable) {
					return unreadable
				}
				return err.Error()
			}
			return url.String()
		}
		if got := (urls{resolve(behind.ToCluster), resolve(behind.ToEndpoints), resolve(behind.ToReady)}); got != want {
			t.Errorf("%s: %q, want %q", service, got, want)
		}
	}
	if url, err := l.Resolve(behind.ToReady, "a", "ClusterIP-ready", 444); err == nil {
		t.Errorf("a port that the Service does not have: %s", url)
	}
}
