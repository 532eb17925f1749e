package builtin_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/resources/upstream/upstreamtest"
)

// TestProxyDestinations: a proxy leads to the pod, or to one behind the Service, at the requested port, and to no
// address that a user has invented. Its connections are as slow as those of kube-apiserver with --max-connection-bytes-per-sec.
func TestProxyDestinations(t *testing.T) {
	c := newCluster(t, builtin.Parts{})
	upstreamtest.LimitConnections(t, 4096)
	c.create("", "pods", `{"metadata":{"name":"p"},"spec":{"nodeName":"n","containers":[{"name":"a","image":"x","ports":[{"containerPort":8080}]}]}}`)
	c.update("", "pods", "p", func(o runtime.Object) {
		s := &o.(*core.Pod).Status
		s.PodIP, s.PodIPs = "192.0.2.7", []core.PodIP{{IP: "192.0.2.7"}}
	})
	c.create("", "services", `{"metadata":{"name":"s"},"spec":{"clusterIP":"None","ports":[{"name":"web","port":80},{"name":"made-up","port":81}]}}`)
	for slice, address := range map[string]string{"web": "192.0.2.7", "made-up": "192.0.2.8"} {
		c.create("discovery.k8s.io", "endpointslices", `{"metadata":{"name":"`+slice+`","labels":{"kubernetes.io/service-name":"s"}},
			"addressType":"IPv4","ports":[{"name":"`+slice+`","port":8080}],
			"endpoints":[{"addresses":["`+address+`"],"targetRef":{"kind":"Pod","namespace":"`+space+`","name":"p"}}]}`)
	}
	for _, test := range []struct {
		resource, name string
		options        runtime.Object
		want           string
		refused        refusal
	}{
		{"pods", "p", &core.PodProxyOptions{Path: "/x/"}, "http://192.0.2.7:8080/x/", refusal{}},
		{"pods", "https:p:9", &core.PodProxyOptions{}, "https://192.0.2.7:9", refusal{}},
		{"services", "s:web", &core.ServiceProxyOptions{Path: "/x"}, "http://192.0.2.7:8080/x", refusal{}},
		{"services", "https:s:80", &core.ServiceProxyOptions{}, "https://192.0.2.7:8080", refusal{}},
		{"services", "s:made-up", &core.ServiceProxyOptions{}, "", refusal{503, `no endpoints available for service "s"`}},
		{"services", "s:82", &core.ServiceProxyOptions{}, "", refusal{503, `no service port 82 found for service "s"`}},
	} {
		served := c.served("", test.resource)
		connecter := served.Subresources["proxy"].Connect(c.store)
		handler, err := connecter.Connect(c.request(served, "proxy", test.name), test.name, test.options, nil)
		if test.want == "" {
			c.expect(err, test.refused)
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		h := handler.(*proxy.UpgradeAwareHandler)
		if got := h.Location.String(); got != test.want {
			t.Errorf("%s leads to %s, want %s", test.name, got, test.want)
		}
		if h.MaxBytesPerSec != 4096 {
			t.Errorf("%s may pass on %d bytes per second", test.name, h.MaxBytesPerSec)
		}
	}
}
