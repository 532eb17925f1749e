package builtin

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/proxy"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/kubelet/client"
	"k8s.io/kubernetes/pkg/registry/core/node"
	nodeutil "k8s.io/kubernetes/pkg/util/node"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/upstream"
)

// The subresources that lead to another server: a kubelet, a pod, the endpoint of a Service. Upstream decides the
// destination and refuses requests; this file gives it the objects that it reads.

var (
	connectVerbs = []string{"create", "get"}
	proxyVerbs   = []string{"create", "delete", "get", "patch", "update"}
	proxyMethods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodHead, http.MethodOptions}
)

// kubeletPort is the port of a kubelet whose node names none.
const kubeletPort = 10250

// Kubelets has the transports for connections to kubelets.
type Kubelets struct {
	transport, insecure http.RoundTripper
	addresses           []v1.NodeAddressType
}

// NewKubelets reads the certificates, if any are given, and fails when it cannot.
func NewKubelets(files client.KubeletTLSConfig, addresses []string) (*Kubelets, error) {
	config := client.KubeletClientConfig{Port: kubeletPort, TLSClientConfig: files}
	k := &Kubelets{}
	for _, a := range addresses {
		k.addresses = append(k.addresses, v1.NodeAddressType(a))
	}
	var err, insecureErr error
	k.transport, err = client.MakeTransport(&config)
	k.insecure, insecureErr = client.MakeInsecureTransport(&config)
	return k, errors.Join(err, insecureErr)
}

// defaultKubelets connects without a certificate, for a server without a configuration for kubelets.
var defaultKubelets = sync.OnceValue(func() *Kubelets {
	k, err := NewKubelets(client.KubeletTLSConfig{}, upstream.KubeletAddresses())
	if err != nil {
		panic(err) // no file is read
	}
	return k
})

// kubeletsOf finds the kubelets of nodes. It is upstream's client.ConnectionInfoGetter.
type kubeletsOf struct {
	*Kubelets
	nodes *resources.Type
	s     resources.Reader
}

func (k kubeletsOf) GetConnectionInfo(ctx context.Context, name types.NodeName) (*client.ConnectionInfo, error) {
	key, err := k.nodes.RequestKey(ctx, string(name))
	if err != nil {
		return nil, err
	}
	o, err := k.s.Get(ctx, key, resources.At{Match: resources.MostRecent})
	if errors.Is(err, resources.ErrNotFound) {
		return nil, apierrors.NewNotFound(requested(ctx, k.nodes.GroupResource), string(name))
	}
	if err != nil {
		return nil, err
	}
	versioned, err := k.nodes.DecodeStored(o)
	if err != nil {
		return nil, err
	}
	n := versioned.(*v1.Node)
	host, err := nodeutil.GetPreferredNodeAddress(n, k.addresses)
	if err != nil {
		return nil, err
	}
	port := int(n.Status.DaemonEndpoints.KubeletEndpoint.Port)
	if port <= 0 {
		port = kubeletPort
	}
	return &client.ConnectionInfo{Scheme: "https", Hostname: host, Port: strconv.Itoa(port), Transport: k.transport,
		InsecureSkipTLSVerifyTransport: k.insecure, NodeFeatures: n.Status.DeclaredFeatures}, nil
}

// requested is the resource of the request: kube-apiserver's error for a missing node of a pod names the resource pods.
func requested(ctx context.Context, otherwise schema.GroupResource) schema.GroupResource {
	if info, ok := genericapirequest.RequestInfoFrom(ctx); ok {
		return schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}
	}
	return otherwise
}

// getter gets the objects of a type in the namespace of the request.
type getter struct {
	t *resources.Type
	s resources.Reader
}

func (g getter) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	key, err := g.t.RequestKey(ctx, name)
	if err != nil {
		return nil, err
	}
	return find[runtime.Object](ctx, g.s, g.t, key)
}

// proxyTransport connects to servers other than kubelets: pods serve arbitrary certificates.
var proxyTransport = sync.OnceValue(func() http.RoundTripper {
	return utilnet.SetTransportDefaults(&http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}})
})

// locator finds the address of the object with a name.
type locator func(ctx context.Context, id string) (*url.URL, http.RoundTripper, error)

// proxied proxies requests to the server behind an object. It is upstream's rest.Connecter.
type proxied[T any, PT object[T]] struct {
	locate locator
	path   func(options PT) string
}

func (p proxied[T, PT]) New() runtime.Object      { return PT(new(T)) }
func (p proxied[T, PT]) Destroy()                 {}
func (p proxied[T, PT]) ConnectMethods() []string { return proxyMethods }
func (p proxied[T, PT]) NewConnectOptions() (runtime.Object, bool, string) {
	return p.New(), true, "path"
}

func (p proxied[T, PT]) Connect(ctx context.Context, id string, options runtime.Object, r rest.Responder) (http.Handler, error) {
	location, transport, err := p.locate(ctx, id)
	if err != nil {
		return nil, err
	}
	location.Path = utilnet.JoinPreservingTrailingSlash(location.Path, p.path(options.(PT)))
	return passOn(location, transport, r), nil
}

// passOn returns a handler that passes requests on, not faster than --max-connection-bytes-per-sec allows.
func passOn(location *url.URL, transport http.RoundTripper, r rest.Responder) http.Handler {
	h := proxy.NewUpgradeAwareHandler(location, transport, true, false, proxy.NewErrorResponder(r))
	h.MaxBytesPerSec = upstream.ConnectionRate()
	return h
}

func nodeProxy(nodes *resources.Type, kubelets *Kubelets) *resources.Subresource {
	return &resources.Subresource{
		Name: "proxy", Kind: coreV1.WithKind("NodeProxyOptions"), Verbs: proxyVerbs,
		Connect: func(s resources.Reader) rest.Connecter {
			locate := func(ctx context.Context, id string) (*url.URL, http.RoundTripper, error) {
				return node.ResourceLocation(getter{nodes, s}, kubeletsOf{kubelets, nodes, s}, proxyTransport(), ctx, id)
			}
			return proxied[core.NodeProxyOptions, *core.NodeProxyOptions]{locate, func(o *core.NodeProxyOptions) string { return o.Path }}
		},
	}
}
