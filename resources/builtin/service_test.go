package builtin_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/networking"
	netutils "k8s.io/utils/net"
	"k8s.io/utils/ptr"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
)

// network is a cluster with the given ranges of addresses for Services, and ports from first to last.
func network(t *testing.T, first, last int, cidrs ...string) *cluster {
	t.Helper()
	parsed, err := netutils.ParseCIDRs(cidrs)
	if err != nil {
		t.Fatal(err)
	}
	n := builtin.ServiceNetwork{NodePorts: utilnet.PortRange{Base: first, Size: last - first + 1}}
	for _, r := range parsed {
		n.Ranges = append(n.Ranges, *r)
	}
	c := newCluster(t, builtin.Parts{Services: n})
	c.addRange("kubernetes", cidrs...)
	return c
}

func (c *cluster) addRange(name string, cidrs ...string) {
	c.Helper()
	c.create("networking.k8s.io", "servicecidrs", fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"cidrs":["%s"]}}`, name, strings.Join(cidrs, `","`)))
}

// service creates a Service with a spec given as JSON.
func (c *cluster) service(name, spec string, dryRun bool) (*core.Service, error) {
	c.Helper()
	s := c.served("", "services")
	obj := decode(c, s.GroupVersionKind, fmt.Sprintf(`{"metadata":{"name":%q},"spec":{%s}}`, name, spec)).(*core.Service)
	obj.Namespace = space
	r := resources.CreateRequest{Type: s.Type, Object: obj, DryRun: dryRun}
	o, err := c.pipeline.Create(c.request(s, "", name), &r)
	return c.decoded(s, o, err)
}

// change updates a Service, through the subresource if one is named.
func (c *cluster) change(name, sub string, dryRun bool, change func(*core.Service)) (*core.Service, error) {
	c.Helper()
	s := c.served("", "services")
	r := resources.UpdateRequest{Type: s.Type, Name: name, DryRun: dryRun}
	r.Change = func(_ context.Context, existing runtime.Object, _ *resources.Object) (runtime.Object, error) {
		obj := existing.DeepCopyObject().(*core.Service)
		change(obj)
		return obj, nil
	}
	o, _, err := c.pipeline.Update(c.request(s, sub, name), &r)
	return c.decoded(s, o, err)
}

func (c *cluster) decoded(s *resources.Served, o *resources.Object, err error) (*core.Service, error) {
	c.Helper()
	if err != nil {
		return nil, err
	}
	hub, err := s.DecodeHub(o.Shown())
	if err != nil {
		c.Fatal(err)
	}
	return hub.(*core.Service), nil
}

func (c *cluster) delete(name string, dryRun ...string) error {
	s := c.served("", "services")
	r := resources.DeleteRequest{Type: s.Type, Name: name, Options: &metav1.DeleteOptions{DryRun: dryRun}}
	_, err := c.pipeline.Delete(c.request(s, "", name), &r)
	return err
}

func (c *cluster) must(service *core.Service, err error) *core.Service {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
	return service
}

// taken maps the allocated addresses and ports to Services, by the store.
func (c *cluster) taken() map[string]string {
	c.Helper()
	held := map[string]string{}
	addresses := c.served("networking.k8s.io", "ipaddresses")
	each(c, addresses.ResourceName(), func(o *resources.Object) {
		hub, err := addresses.DecodeHub(o)
		if err != nil {
			c.Fatal(err)
		}
		held[o.Name] = hub.(*networking.IPAddress).Spec.ParentRef.Name
	})
	each(c, "nodeports.rowlock.internal", func(o *resources.Object) {
		_, owner, _ := strings.Cut(string(o.Data), `"service":{"namespace":"space","name":"`)
		held[o.Name] = strings.TrimSuffix(owner, `"}}`)
	})
	return held
}

// wanted maps the addresses and ports in the Services to these, which has to be equal to taken.
func (c *cluster) wanted() map[string]string {
	c.Helper()
	held := map[string]string{}
	s := c.served("", "services")
	each(c, "services", func(o *resources.Object) {
		service := c.must(c.decoded(s, o, nil))
		take := func(what string) {
			if other, ok := held[what]; ok && other != service.Name {
				c.Errorf("%s and %s both have %s", service.Name, other, what)
			}
			held[what] = service.Name
		}
		for _, ip := range service.Spec.ClusterIPs {
			if ip != core.ClusterIPNone {
				take(ip)
			}
		}
		for _, p := range service.Spec.Ports {
			if p.NodePort != 0 {
				take(fmt.Sprint(p.NodePort))
			}
		}
		if p := service.Spec.HealthCheckNodePort; p != 0 {
			take(fmt.Sprint(p))
		}
	})
	return held
}

func each(c *cluster, resource string, do func(*resources.Object)) {
	c.Helper()
	all, err := c.store.Snapshot(c.Context(), resource, resources.At{})
	if err != nil {
		c.Fatal(err)
	}
	all.Ascend("", "", func(o *resources.Object) bool { do(o); return true })
}

func (c *cluster) checkBooks() {
	c.Helper()
	if diff := cmp.Diff(c.wanted(), c.taken()); diff != "" {
		c.Errorf("what Services have and what is taken (-services +taken):\n%s", diff)
	}
}

// TestServiceIsRefused has the answers of kube-apiserver v1.37.1 to creates, with 10.43.0.0/16 and the default ports.
func TestServiceIsRefused(t *testing.T) {
	c := network(t, 30000, 32767, "10.43.0.0/16")
	c.must(c.service("one", `"clusterIP":"10.43.7.7","type":"LoadBalancer","externalTrafficPolicy":"Local","healthCheckNodePort":30779,"ports":[{"port":80,"nodePort":30777}]`, false))
	invalid := func(what string) refusal { return refusal{422, `Service "x" is invalid: ` + what} }
	for spec, want := range map[string]refusal{
		`"clusterIP":"10.43.7.7","ports":[{"port":80}]`:                                                               invalid(`spec.clusterIPs: Invalid value: ["10.43.7.7"]: failed to allocate IP 10.43.7.7: provided IP is already allocated`),
		`"clusterIP":"10.99.0.1","ports":[{"port":80}]`:                                                               invalid(`spec.clusterIPs: Invalid value: ["10.99.0.1"]: failed to allocate IP 10.99.0.1: the provided network does not match the current range`),
		`"clusterIP":"10.43.0.0","ports":[{"port":80}]`:                                                               invalid(`spec.clusterIPs: Invalid value: ["10.43.0.0"]: failed to allocate IP 10.43.0.0: the provided network does not match the current range`),
		`"clusterIP":"fd00::1","ports":[{"port":80}]`:                                                                 invalid(`spec.clusterIPs[0]: Invalid value: ["fd00::1"]: IPv6 is not configured on this cluster`),
		`"ipFamilyPolicy":"RequireDualStack","ports":[{"port":80}]`:                                                   invalid(`spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services`),
		`"ipFamilies":["IPv6"],"ports":[{"port":80}]`:                                                                 invalid(`spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster`),
		`"type":"NodePort","ports":[{"port":80,"nodePort":30777}]`:                                                    invalid(`spec.ports[0].nodePort: Invalid value: 30777: provided port is already allocated`),
		`"type":"NodePort","ports":[{"port":80,"nodePort":30777,"protocol":"UDP"}]`:                                   invalid(`spec.ports[0].nodePort: Invalid value: 30777: provided port is already allocated`),
		`"type":"NodePort","ports":[{"port":80,"nodePort":99}]`:                                                       invalid(`spec.ports[0].nodePort: Invalid value: 99: provided port is not in the valid range. The range of valid ports is 30000-32767`),
		`"type":"NodePort","ports":[{"name":"a","port":80,"nodePort":30780},{"name":"b","port":81,"nodePort":30780}]`: invalid(`spec.ports[1].nodePort: Invalid value: 30780: provided port is already allocated`),
		`"ports":[{"port":80,"nodePort":30780}]`:                                                                      invalid("spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"),
		`"type":"ExternalName","externalName":"a.b","internalTrafficPolicy":"Bogus"`:                                  invalid(`spec.internalTrafficPolicy: Unsupported value: "Bogus": supported values: "Cluster", "Local"`),
		`"type":"LoadBalancer","externalTrafficPolicy":"Local","healthCheckNodePort":30779,"ports":[{"port":80}]`:     {500, `Internal error occurred: failed to allocate requested HealthCheck NodePort 30779: provided port is already allocated`},
	} {
		for _, dry := range []bool{false, true} {
			_, err := c.service("x", spec, dry)
			c.expect(err, want)
		}
	}
	_, err := c.service("one", `"ports":[{"port":80}]`, false)
	c.expect(err, refusal{409, `services "one" already exists`})
	c.checkBooks()
}

func TestServiceGetsWhatItAsksFor(t *testing.T) {
	c := network(t, 30000, 32767, "10.43.0.0/16", "fd00:43::/112")
	for _, test := range []struct {
		spec             string
		addresses, ports int
		first            core.IPFamily
	}{
		{`"ports":[{"port":80}]`, 1, 0, core.IPv4Protocol},
		{`"ipFamilies":["IPv6"],"ports":[{"port":80}]`, 1, 0, core.IPv6Protocol},
		{`"ipFamilyPolicy":"PreferDualStack","ports":[{"port":80}]`, 2, 0, core.IPv4Protocol},
		{`"ipFamilyPolicy":"RequireDualStack","ipFamilies":["IPv6","IPv4"],"ports":[{"port":80}]`, 2, 0, core.IPv6Protocol},
		{`"clusterIP":"None","ports":[{"port":80}]`, 0, 0, core.IPv4Protocol},
		{`"type":"ExternalName","externalName":"a.b","internalTrafficPolicy":"Local"`, 0, 0, ""},
		{`"type":"NodePort","ports":[{"name":"a","port":80},{"name":"b","port":81}]`, 1, 2, core.IPv4Protocol},
		{`"type":"NodePort","ports":[{"name":"a","port":53},{"name":"b","port":53,"protocol":"UDP"}]`, 1, 1, core.IPv4Protocol},
		{`"type":"LoadBalancer","ports":[{"port":80}]`, 1, 1, core.IPv4Protocol},
		{`"type":"LoadBalancer","allocateLoadBalancerNodePorts":false,"ports":[{"port":80}]`, 1, 0, core.IPv4Protocol},
		{`"type":"LoadBalancer","externalTrafficPolicy":"Local","ports":[{"port":80}]`, 1, 2, core.IPv4Protocol},
	} {
		c.must(c.service("dry", test.spec, true))
		if n := len(c.taken()); n != 0 {
			t.Fatalf("%s: a dry run took %d", test.spec, n)
		}
		got := c.must(c.service("s", test.spec, false))
		if test.first != "" && got.Spec.IPFamilies[0] != test.first {
			t.Errorf("%s: families %v", test.spec, got.Spec.IPFamilies)
		}
		if got.Spec.Type == core.ServiceTypeExternalName && got.Spec.InternalTrafficPolicy != nil {
			t.Errorf("%s: the policy is shown", test.spec)
		}
		c.checkBooks()
		if n := len(c.taken()); n != test.addresses+test.ports {
			t.Errorf("%s: took %v", test.spec, slices.Collect(maps.Keys(c.taken())))
		}
		if err := c.delete("s", metav1.DryRunAll); err != nil {
			t.Fatal(err)
		}
		c.checkBooks()
		if err := c.delete("s"); err != nil {
			t.Fatal(err)
		}
		if n := len(c.taken()); n != 0 {
			t.Errorf("%s: %d were not given back", test.spec, n)
		}
	}
}

func TestServiceChanges(t *testing.T) {
	c := network(t, 30000, 32767, "10.43.0.0/16", "fd00:43::/112")
	first := c.must(c.service("s", `"ports":[{"port":80}]`, false)).Spec.ClusterIP
	prefer, single := core.IPFamilyPolicyPreferDualStack, core.IPFamilyPolicySingleStack
	for _, step := range []struct {
		name   string
		change func(*core.Service)
		taken  int
	}{
		{"what is not said is kept", func(s *core.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "", nil; s.Spec.Ports[0].Port = 81 }, 1},
		{"to NodePort", func(s *core.Service) {
			s.Spec.Type, s.Spec.ExternalTrafficPolicy = core.ServiceTypeNodePort, core.ServiceExternalTrafficPolicyCluster
		}, 2},
		{"to LoadBalancer, local", func(s *core.Service) {
			s.Spec.Type, s.Spec.ExternalTrafficPolicy = core.ServiceTypeLoadBalancer, core.ServiceExternalTrafficPolicyLocal
			s.Spec.AllocateLoadBalancerNodePorts = ptr.To(true)
		}, 3},
		{"global", func(s *core.Service) { s.Spec.ExternalTrafficPolicy = core.ServiceExternalTrafficPolicyCluster }, 2},
		{"another port", func(s *core.Service) { s.Spec.Ports[0].NodePort = 30777 }, 2},
		{"back to ClusterIP", func(s *core.Service) { s.Spec.Type = core.ServiceTypeClusterIP }, 1},
		{"dual stack", func(s *core.Service) { s.Spec.IPFamilyPolicy = &prefer }, 2},
		{"single stack", func(s *core.Service) { s.Spec.IPFamilyPolicy = &single }, 1},
	} {
		c.must(c.change("s", "", true, step.change))
		c.checkBooks()
		got := c.must(c.change("s", "", false, step.change))
		c.checkBooks()
		if n := len(c.taken()); n != step.taken || got.Spec.ClusterIP != first {
			t.Errorf("%s: has %v, and %s was %s", step.name, c.taken(), got.Spec.ClusterIP, first)
		}
	}
	_, err := c.change("s", "", false, func(s *core.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs[0] = "10.43.7.8", "10.43.7.8" })
	c.expect(err, refusal{422, `Service "s" is invalid: spec.clusterIPs[0]: Invalid value: ["10.43.7.8"]: may not change once set`})
	c.must(c.change("s", "status", false, func(s *core.Service) { s.Spec.Type = core.ServiceTypeNodePort }))
	c.checkBooks()
	c.must(c.change("s", "", false, func(s *core.Service) {
		s.Spec.Type, s.Spec.ExternalName, s.Spec.ClusterIP, s.Spec.ClusterIPs = core.ServiceTypeExternalName, "a.b", "", nil
	}))
	if held := c.taken(); len(held) != 0 {
		t.Errorf("an ExternalName has %v", held)
	}
}

// A Service that finalizers keep has its allocations until it is removed, by whichever path.
func TestServiceGoesWithItsLastFinalizer(t *testing.T) {
	for _, sub := range []string{"", "status"} {
		c := network(t, 30000, 32767, "10.43.0.0/16")
		c.must(c.service("s", `"clusterIP":"10.43.7.7","type":"NodePort","ports":[{"port":80,"nodePort":30777}]`, false))
		c.must(c.change("s", "", false, func(s *core.Service) { s.Finalizers = []string{"a.b/c"} }))
		if err := c.delete("s"); err != nil {
			t.Fatal(err)
		}
		if n := len(c.taken()); n != 2 {
			t.Errorf("%d taken while the Service is there", n)
		}
		c.must(c.change("s", sub, false, func(s *core.Service) { s.Finalizers = nil }))
		if held := c.taken(); len(held) != 0 {
			t.Errorf("left: %v", held)
		}
		c.must(c.service("t", `"clusterIP":"10.43.7.7","type":"NodePort","ports":[{"port":80,"nodePort":30777}]`, false))
	}
}

func TestServiceRanges(t *testing.T) {
	c := network(t, 30000, 30001, "10.44.0.0/30")
	const plain, full = `"ports":[{"port":80}]`, `Internal error occurred: failed to allocate a serviceIP for Service "x": range is full`
	c.must(c.service("a", plain, false))
	c.must(c.service("b", `"type":"NodePort","ports":[{"name":"a","port":80},{"name":"b","port":81}]`, false))
	for _, dry := range []bool{false, true} {
		_, err := c.service("x", plain, dry)
		c.expect(err, refusal{500, full})
	}
	c.addRange("more", "10.99.0.0/30")
	if ip := c.must(c.service("x", plain, false)).Spec.ClusterIP; !strings.HasPrefix(ip, "10.99.0.") {
		t.Errorf("got %s", ip)
	}
	_, err := c.service("y", `"type":"NodePort","ports":[{"port":80}]`, false)
	c.expect(err, refusal{500, "Internal error occurred: failed to allocate a nodePort: range is full"})
	c.update("networking.k8s.io", "servicecidrs", "more", func(obj runtime.Object) {
		obj.(*networking.ServiceCIDR).Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Closed",
			LastTransitionTime: metav1.Now()}}
	})
	if err := c.delete("x"); err != nil {
		t.Fatal(err)
	}
	c.checkBooks() // an address need not be in a used range to be freed
	_, err = c.service("x", plain, false)
	c.expect(err, refusal{500, full})
}

// Many concurrent requests for the same get each a different one, or an error that nothing is left.
func TestServicesShareNothing(t *testing.T) {
	c := network(t, 30000, 30039, "10.45.0.0/26")
	const writers, addresses, ports = 64, 62, 40
	var mu sync.Mutex
	var refused []error
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			kind := "ClusterIP"
			if i < ports+4 {
				kind = "NodePort"
			}
			name := fmt.Sprintf("s%d", i)
			_, err := c.service(name, fmt.Sprintf(`"type":%q,"ports":[{"port":80}]`, kind), false)
			if err == nil && i%8 == 0 {
				if err = c.delete(name); err == nil {
					_, err = c.service(name, `"type":"NodePort","ports":[{"port":80}]`, false)
				}
			}
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				refused = append(refused, err)
			}
		})
	}
	wg.Wait()
	c.checkBooks()
	for _, err := range refused {
		if !strings.HasSuffix(err.Error(), "range is full") || errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	held := 0
	for what := range c.taken() {
		if strings.Contains(what, ".") {
			held++
		}
	}
	if held == 0 || held > addresses || len(c.taken())-held > ports {
		t.Errorf("%d addresses and %d ports of %d and %d", held, len(c.taken())-held, addresses, ports)
	}
}
