package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/rowlock/rowlock/resources/behind"
)

// The objects by which clients find the API exist from the start, and follow the server's configuration at the next one.
func TestKubernetesService(t *testing.T) {
	dir := t.TempDir()
	args := []string{"--data-dir", dir, "--service-cluster-ip-range", "10.99.0.0/24",
		"--service-cluster-ip-range", "10.44.0.0/24"} // given twice, the last one counts, as in kube-apiserver
	var uid string
	for _, more := range [][]string{
		{"--advertise-address", "192.0.2.7"},
		{"--advertise-address", "192.0.2.8"},
		{"--advertise-address", "2001:db8::8", "--service-cluster-ip-range", "10.44.0.0/24,fd00:44::/112"}, // dual stack from now on
		{"--advertise-address", "2001:db8::8", "--service-cluster-ip-range", "10.44.0.0/24,fd00:44::/112"},
	} {
		p := start(t, append(args, more...)...)
		client := p.client(t)
		ctx := t.Context()
		service, err := client.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if uid != "" && string(service.UID) != uid {
			t.Error("a start made the Service anew")
		}
		if diff := cmp.Diff([]string{"10.44.0.1"}, service.Spec.ClusterIPs); diff != "" || service.Spec.Ports[0].Port != 443 {
			t.Errorf("%s ports %v", diff, service.Spec.Ports)
		}
		address, err := client.NetworkingV1().IPAddresses().Get(ctx, "10.44.0.1", metav1.GetOptions{})
		if err != nil || address.Spec.ParentRef.Name != "kubernetes" {
			t.Errorf("%v %v", address, err)
		}
		slice, err := client.DiscoveryV1().EndpointSlices("default").Get(ctx, "kubernetes", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		//nolint:staticcheck // Endpoints are deprecated, and still there
		endpoints, err := client.CoreV1().Endpoints("default").Get(ctx, "kubernetes", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if slice.Endpoints[0].Addresses[0] != more[1] || endpoints.Subsets[0].Addresses[0].IP != more[1] {
			t.Errorf("the endpoint of %s is %v, %v", more[1], slice.Endpoints, endpoints.Subsets)
		}
		if *slice.Ports[0].Port != endpoints.Subsets[0].Ports[0].Port || *slice.Ports[0].Protocol != corev1.ProtocolTCP {
			t.Errorf("ports %v, %v", slice.Ports, endpoints.Subsets)
		}
		cidr, err := client.NetworkingV1().ServiceCIDRs().Get(ctx, "kubernetes", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(cidr.Spec.CIDRs) != len(more)/2 || cidr.Status.Conditions[0].Status != metav1.ConditionTrue {
			t.Errorf("%v", cidr)
		}
		for _, gone := range []func(context.Context, string, metav1.DeleteOptions) error{
			client.CoreV1().Services("default").Delete, client.DiscoveryV1().EndpointSlices("default").Delete,
			client.CoreV1().Endpoints("default").Delete, //nolint:staticcheck // as above
			client.NetworkingV1().ServiceCIDRs().Delete,
		} {
			if err := gone(ctx, "kubernetes", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		uid = comesBack(t, client, service.ResourceVersion)
		if code := p.end(); code != 0 {
			t.Fatalf("ended with %d: %s", code, p.stderr.String())
		}
	}
}

// comesBack waits until the objects are there again after the Service had a resourceVersion, and returns its new uid.
func comesBack(t *testing.T, client kubernetes.Interface, version string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	named := metav1.ListOptions{FieldSelector: "metadata.name=kubernetes", ResourceVersion: version}
	var uid string
	for _, begin := range []func(context.Context, metav1.ListOptions) (watch.Interface, error){
		client.CoreV1().Services("default").Watch, client.DiscoveryV1().EndpointSlices("default").Watch,
		client.CoreV1().Endpoints("default").Watch, //nolint:staticcheck // deprecated, and still there
		client.NetworkingV1().ServiceCIDRs().Watch,
	} {
		w, err := begin(ctx, named)
		if err != nil {
			t.Fatal(err)
		}
		for deleted := false; ; {
			e, ok := <-w.ResultChan()
			if !ok {
				t.Fatal("something did not come back")
			}
			if e.Type == watch.Added && deleted {
				if service, ok := e.Object.(*corev1.Service); ok {
					uid = string(service.UID)
				}
				break
			}
			deleted = deleted || e.Type == watch.Deleted
		}
		w.Stop()
	}
	return uid
}

// The endpoints are those of the server, and the ServiceCIDR is ready, also after a client has changed them.
func TestServiceObjectsAreKept(t *testing.T) {
	p := start(t, "--data-dir", t.TempDir(), "--advertise-address", "192.0.2.7")
	client := p.client(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	slices := client.DiscoveryV1().EndpointSlices("default")
	slice, err := slices.Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	slice.Endpoints[0].Addresses[0] = "203.0.113.1"
	if slice, err = slices.Update(ctx, slice, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	//nolint:staticcheck // Endpoints are deprecated, and still there
	endpoints, err := client.CoreV1().Endpoints("default").Patch(ctx, "kubernetes", types.MergePatchType, []byte(`{"subsets":null}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cidr, err := client.NetworkingV1().ServiceCIDRs().Patch(ctx, "kubernetes", types.MergePatchType,
		[]byte(`{"status":{"conditions":null}}`), metav1.PatchOptions{}, "status")
	if err != nil || len(cidr.Status.Conditions) > 0 {
		t.Fatal(err, cidr)
	}
	for version, begin := range map[string]func(context.Context, metav1.ListOptions) (watch.Interface, error){
		cidr.ResourceVersion:      client.NetworkingV1().ServiceCIDRs().Watch,
		slice.ResourceVersion:     slices.Watch,
		endpoints.ResourceVersion: client.CoreV1().Endpoints("default").Watch, //nolint:staticcheck // as above
	} {
		w, err := begin(ctx, metav1.ListOptions{FieldSelector: "metadata.name=kubernetes", ResourceVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		var is string
		for is != "192.0.2.7" {
			e, ok := <-w.ResultChan()
			if !ok {
				t.Fatalf("it stays %q", is)
			}
			switch obj := e.Object.(type) {
			case *discoveryv1.EndpointSlice:
				is = obj.Endpoints[0].Addresses[0]
			case *corev1.Endpoints: //nolint:staticcheck // as above
				if is = ""; len(obj.Subsets) > 0 {
					is = obj.Subsets[0].Addresses[0].IP
				}
			case *networkingv1.ServiceCIDR:
				if is = ""; len(obj.Status.Conditions) > 0 && obj.Status.Conditions[0].Status == metav1.ConditionTrue {
					is = "192.0.2.7" // the restored address
				}
			}
		}
		w.Stop()
	}
}

// serve sends requests for a Service to a ready endpoint if it has EndpointSlices, and kube-apiserver to the ClusterIP, unless the flag says where.
func TestServiceRouting(t *testing.T) {
	for value, want := range map[string]behind.Routing{"": behind.ToReady, "=true": behind.ToEndpoints, "=false": behind.ToCluster, " ": behind.ToEndpoints} {
		for _, command := range []string{"serve", kubeAPIServerName} {
			o := &kubeAPIServerOptions{}
			sections := o.serve.sections
			if command == kubeAPIServerName {
				sections = o.sections
			}
			flags := pflag.NewFlagSet(command, pflag.ContinueOnError)
			for _, s := range sections() {
				flags.AddFlagSet(s.flags)
			}
			wanted := want
			if value == "" && command == kubeAPIServerName {
				wanted = behind.ToCluster
			}
			var args []string
			if value != "" {
				args = []string{"--enable-aggregator-routing" + strings.TrimSpace(value)}
			}
			if err := flags.Parse(args); err != nil || o.serve.routing != wanted {
				t.Errorf("%s %q: %v, %v; want %v", command, args, o.serve.routing, err, wanted)
			}
		}
	}
}

// Flags about the Service kubernetes and the addresses of a server that only the command kube-apiserver has: with --endpoint-reconciler-type=none, the
// Service has no endpoints, and the IP family of the server may be another one.
func TestServiceFlagsOfKubeAPIServer(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens.csv")
	if err := os.WriteFile(tokens, []byte("t,admin,1,system:masters\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startKubeAPIServer(t, t.TempDir(), "--etcd-servers=http://127.0.0.1:1", "--token-auth-file="+tokens, "--authorization-mode=RBAC",
		"--endpoint-reconciler-type=none", "--advertise-address=192.0.2.7", "--service-cluster-ip-range=fd00:44::/112",
		"--kubernetes-service-node-port=30443", "--peer-advertise-ip=192.0.2.9", "--peer-advertise-port=7443", "--max-connection-bytes-per-sec=4096")
	for _, c := range []struct {
		path string
		code int
		has  string
	}{
		{"/api/v1/namespaces/default/endpoints/kubernetes", 404, ""},
		{"/api/v1/namespaces/default/services/kubernetes", 200, `"type":"NodePort"`},
		{"/api/v1/namespaces/default/services/kubernetes", 200, `"nodePort":30443`},
		{"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases?watch=1&fieldSelector=metadata.namespace=kube-system", 200,
			`"kubernetes.io/peer-advertise-address":"192.0.2.9:7443"`},
	} {
		r, err := http.NewRequest(http.MethodGet, s.url+c.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer t")
		response, err := s.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(response.Body).ReadString('\n')
		response.Body.Close()
		if err != nil && !errors.Is(err, io.EOF) || response.StatusCode != c.code || !strings.Contains(line, c.has) {
			t.Errorf("%s: %d %s %v, want %d, %s", c.path, response.StatusCode, line, err, c.code, c.has)
		}
	}
	if logged := s.end(t); logged != "" {
		t.Errorf("logged %s", logged)
	}
}
