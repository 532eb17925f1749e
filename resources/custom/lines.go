package custom

import (
	"cmp"
	"context"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/behind"
	"github.com/rowlock/rowlock/resources/bounded"
)

// lines are the connections to conversion webhooks. It is safe for concurrent use.
//
// Upstream's converter takes no context. So each request to a webhook has a line of its own while it lasts, and the HTTP requests of the line
// end with the context of that request.
type lines struct {
	config *Config
	behind *behind.Lister
	// loopback reaches the server itself; nil: only its Service does.
	loopback http.RoundTripper
	// timeout is that of a request; 0: resources.ConversionPatience.
	timeout time.Duration
	// clock is time.Now, or a test's.
	clock func() time.Time

	mu   sync.Mutex
	free []*line // the most recently used one is last
}

// line connects to webhooks: upstream's converters over connections of its own. One request has it at a time.
type line struct {
	of      *lines
	factory *conversion.CRConverterFactory
	// ctx is the context of the request that has the line. silent: the request got a connection, and no answer.
	ctx        context.Context
	silent     bool
	converters map[lineKey]runtime.ObjectConvertor
}

// lineKey is a definition at a revision.
type lineKey struct {
	name     string
	revision int64
}

// mostConverters is the number of definitions for which a line keeps converters.
const mostConverters = 64

// take returns a free line, or a new one.
func (l *lines) take() (*line, error) {
	if free := l.pop(); free != nil {
		return free, nil
	}
	n := &line{of: l, converters: map[lineKey]runtime.ObjectConvertor{}}
	factory, err := conversion.NewCRConverterFactory(services{n}, func(delegate webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver {
		return lineResolver{delegate, n}
	})
	n.factory = factory
	return n, err
}

func (l *lines) pop() *line {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.free)
	if n == 0 {
		return nil
	}
	last := l.free[n-1]
	l.free = l.free[:n-1]
	return last
}

func (l *lines) put(n *line) {
	n.ctx = nil
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free = append(l.free, n)
}

// patience is the timeout of a request.
func (l *lines) patience() time.Duration { return cmp.Or(l.timeout, resources.ConversionPatience) }

func (l *lines) now() time.Time {
	if l.clock == nil {
		return time.Now()
	}
	return l.clock()
}

// isSelf reports whether a Service is this server's.
func (l *lines) isSelf(namespace, name string, port int) bool {
	return l.loopback != nil && behind.Self(namespace, name, port)
}

// rest drops all free lines except one, and the cached Services.
func (l *lines) rest() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.free); n > 0 {
		l.free = []*line{l.free[n-1]}
		l.behind.Forget()
	}
}

// converter returns the converter that calls the webhook of a definition.
func (l *line) converter(d *definition) (runtime.ObjectConvertor, error) {
	key := lineKey{d.name, d.revision}
	if c := l.converters[key]; c != nil {
		return c, nil
	}
	crd, err := d.decode()
	if err != nil {
		return nil, err
	}
	_, unsafe, err := l.factory.NewConverter(&crd.CustomResourceDefinition)
	if err != nil {
		return nil, err
	}
	if len(l.converters) >= mostConverters {
		clear(l.converters)
	}
	l.converters[key] = unsafe
	return unsafe, nil
}

// lineResolver makes requests to webhooks end with the context of their line, and bounds the size of the answers.
type lineResolver struct {
	webhook.AuthenticationInfoResolver

	line *line
}

// ClientConfigFor implements webhook.AuthenticationInfoResolver.
func (r lineResolver) ClientConfigFor(hostPort string) (*rest.Config, error) {
	return r.wrapped(r.AuthenticationInfoResolver.ClientConfigFor(hostPort))
}

// ClientConfigForService implements webhook.AuthenticationInfoResolver.
func (r lineResolver) ClientConfigForService(name, namespace string, port int) (*rest.Config, error) {
	if l := r.line.of; l.isSelf(namespace, name, port) {
		return r.wrapped(&rest.Config{WrapTransport: func(http.RoundTripper) http.RoundTripper { return l.loopback }}, nil)
	}
	return r.wrapped(r.AuthenticationInfoResolver.ClientConfigForService(name, namespace, port))
}

func (r lineResolver) wrapped(c *rest.Config, err error) (*rest.Config, error) {
	c, err = bounded.Config(c, err)
	if err != nil {
		return nil, err
	}
	c.Timeout = r.line.of.patience()
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return lineTransport{r.line, next} })
	return c, nil
}

// lineTransport is the transport of one line.
type lineTransport struct {
	line *line
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper. The request of the line lasts until the answer has been read (definition.ask).
func (t lineTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	context.AfterFunc(t.line.ctx, cancel)
	connected := false
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GetConn: func(string) { connected = false },
		GotConn: func(httptrace.GotConnInfo) { connected = true }}) // by this goroutine
	response, err := t.next.RoundTrip(r.WithContext(ctx))
	t.line.silent = err != nil && connected
	return response, err
}

// WrappedRoundTripper implements k8s.io/apimachinery/pkg/util/net.RoundTripperWrapper.
func (t lineTransport) WrappedRoundTripper() http.RoundTripper { return t.next }
