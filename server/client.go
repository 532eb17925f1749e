package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	admissionregistrationv1 "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	authorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	batchv1 "k8s.io/client-go/kubernetes/typed/batch/v1"
	certificatesv1 "k8s.io/client-go/kubernetes/typed/certificates/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	nodev1 "k8s.io/client-go/kubernetes/typed/node/v1"
	rbacv1 "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/rest"

	"github.com/rowlock/rowlock/resources/bounded"
	"github.com/rowlock/rowlock/server/auditing"
)

// Client returns a client with which a part of this process sends requests as a user, without leaving the process. It supports no watches, and only
// the groups in use: a call for another one panics, because all of them would add 15 MB to the binary. agent is the User-Agent, which names the
// field manager.
func (s *Server) Client(who user.Info, agent string) (kubernetes.Interface, error) {
	config := &rest.Config{Host: "http://loopback", QPS: -1}
	sends := &http.Client{Transport: loopback{s, who, agent, 0}}
	var c client
	var errs [8]error
	c.core, errs[0] = corev1.NewForConfigAndClient(config, sends)
	c.node, errs[1] = nodev1.NewForConfigAndClient(config, sends)
	c.batch, errs[2] = batchv1.NewForConfigAndClient(config, sends)
	c.certificates, errs[3] = certificatesv1.NewForConfigAndClient(config, sends)
	c.authorization, errs[4] = authorizationv1.NewForConfigAndClient(config, sends)
	c.rbac, errs[5] = rbacv1.NewForConfigAndClient(config, sends)
	c.registration, errs[6] = admissionregistrationv1.NewForConfigAndClient(config, sends)
	c.discovery, errs[7] = discovery.NewDiscoveryClientForConfigAndClient(config, sends)
	return c, errors.Join(errs[:]...)
}

type client struct {
	kubernetes.Interface // nil

	core          *corev1.CoreV1Client
	node          *nodev1.NodeV1Client
	batch         *batchv1.BatchV1Client
	certificates  *certificatesv1.CertificatesV1Client
	authorization *authorizationv1.AuthorizationV1Client
	rbac          *rbacv1.RbacV1Client
	registration  *admissionregistrationv1.AdmissionregistrationV1Client
	discovery     *discovery.DiscoveryClient
}

func (c client) CoreV1() corev1.CoreV1Interface                         { return c.core }
func (c client) NodeV1() nodev1.NodeV1Interface                         { return c.node }
func (c client) BatchV1() batchv1.BatchV1Interface                      { return c.batch }
func (c client) CertificatesV1() certificatesv1.CertificatesV1Interface { return c.certificates }
func (c client) RbacV1() rbacv1.RbacV1Interface                         { return c.rbac }
func (c client) AuthorizationV1() authorizationv1.AuthorizationV1Interface {
	return c.authorization
}
func (c client) AdmissionregistrationV1() admissionregistrationv1.AdmissionregistrationV1Interface {
	return c.registration
}
func (c client) Discovery() discovery.DiscoveryInterfaces { return c.discovery }

// loopback sends requests to the server as a user, without leaving the process.
type loopback struct {
	s     *Server
	who   user.Info
	agent string
	// most bounds the bytes of a response. 0: no bound, for callers that list everything.
	most int
}

// mostNested bounds requests that the server sends itself in order to answer another of these. A webhook that leads to the server can cause itself:
// without a bound, its calls would take the stack of one goroutine until the first of them ends by its timeout.
const mostNested = 10

var errNested = errors.New("the server calls itself again and again: a webhook leads to the server, and is called for the requests that it causes")

// RoundTrip implements http.RoundTripper, for responses that are no streams. It returns bounded.ErrTooLong for a longer response; such a response
// can come from another server, behind an APIService.
func (l loopback) RoundTrip(r *http.Request) (response *http.Response, err error) {
	depth, _ := r.Context().Value(internalKey{}).(int)
	if depth == mostNested {
		return nil, errNested
	}
	r = r.Clone(context.WithValue(genericapirequest.WithUser(r.Context(), l.who), internalKey{}, depth+1))
	r.Header.Set("User-Agent", l.agent)
	r.RequestURI, r.RemoteAddr = r.URL.RequestURI(), auditing.Loopback
	if r.Body == nil {
		r.Body = http.NoBody
	}
	a := &answer{header: http.Header{}, code: http.StatusOK, most: l.most}
	defer func() {
		if a.tooLong {
			_ = recover() // a handler that cannot write to its client panics to cut the connection
			response, err = nil, bounded.ErrTooLong
		}
	}()
	l.s.echo.ServeHTTP(a, r)
	return &http.Response{StatusCode: a.code, Status: http.StatusText(a.code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.header, Body: io.NopCloser(&a.body), ContentLength: int64(a.body.Len()), Request: r}, nil
}

// answer is a response in memory.
type answer struct {
	header http.Header
	code   int
	body   bytes.Buffer
	// most is that of loopback. When tooLong is set, nothing is kept.
	most    int
	tooLong bool
}

func (a *answer) Header() http.Header  { return a.header }
func (a *answer) WriteHeader(code int) { a.code = code }

// Flush implements http.Flusher: responses of another server come in parts.
func (a *answer) Flush() {}

// Write implements http.ResponseWriter. Errors: bounded.ErrTooLong.
func (a *answer) Write(p []byte) (int, error) {
	if a.tooLong = a.tooLong || a.most > 0 && a.body.Len()+len(p) > a.most; a.tooLong {
		a.body = bytes.Buffer{}
		return 0, bounded.ErrTooLong
	}
	return a.body.Write(p)
}
