package server

import (
	"bytes"
	"io"
	"net/http"

	apiadmission "k8s.io/apiserver/pkg/admission"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	nodev1 "k8s.io/client-go/kubernetes/typed/node/v1"
	"k8s.io/client-go/rest"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/admission"
)

// newAdmission returns the chain of admission plugins.
func (s *Server) newAdmission() (apiadmission.Interface, error) {
	config := &rest.Config{Host: "http://loopback", Transport: loopback{s}, QPS: -1, UserAgent: "kube-apiserver"}
	client, err := newPluginClient(config)
	if err != nil {
		return nil, err
	}
	return admission.New(admission.Config{Store: s.Store, Client: client, Features: s.Features,
		Enable: s.EnableAdmissionPlugins, Disable: s.DisableAdmissionPlugins, Stop: s.ended})
}

// pluginClient is the part of a client that plugins use. All of it would add 15 MB to the binary.
type pluginClient struct {
	kubernetes.Interface // nil

	core *corev1.CoreV1Client
	node *nodev1.NodeV1Client
}

func newPluginClient(config *rest.Config) (c pluginClient, err error) {
	if c.core, err = corev1.NewForConfig(config); err != nil {
		return c, err
	}
	c.node, err = nodev1.NewForConfig(config)
	return c, err
}

func (c pluginClient) CoreV1() corev1.CoreV1Interface { return c.core }
func (c pluginClient) NodeV1() nodev1.NodeV1Interface { return c.node }

// loopback sends requests to the server without leaving the process.
type loopback struct{ s *Server }

// RoundTrip implements http.RoundTripper, for answers that are no streams.
func (l loopback) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(genericapirequest.WithUser(r.Context(), resources.APIServer.Info))
	r.RequestURI = r.URL.RequestURI()
	if r.Body == nil {
		r.Body = http.NoBody
	}
	a := &answer{header: http.Header{}, code: http.StatusOK}
	l.s.echo.ServeHTTP(a, r)
	return &http.Response{StatusCode: a.code, Status: http.StatusText(a.code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.header, Body: io.NopCloser(&a.body), ContentLength: int64(a.body.Len()), Request: r}, nil
}

// answer is a response in memory.
type answer struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(code int)        { a.code = code }
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }
