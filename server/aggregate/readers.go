package aggregate

import (
	"net/http"
	"sync/atomic"
	"time"

	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/util/x509metrics"

	"github.com/rowlock/rowlock/resources/upstream"
)

// counted makes a transport count the requests to servers with outdated certificates, as upstream's does.
var counted = x509metrics.NewDeprecatedCertificateRoundTripperWrapperConstructor(upstream.ServersWithoutSAN, upstream.ServersWithSHA1)

// mostReaders is how many reads use connections of their own at the same time.
const mostReaders = 25

// readers has HTTP/1.1 connections for short reads, with one read at a time on each. This costs half as much as HTTP/2, whose client starts a
// goroutine for each request. Watches, and other requests that last long or come in large numbers, share HTTP/2 connections, as in upstream.
// So do writes: if an HTTP/1.1 connection has just been closed, the client cannot tell whether a write was made.
type readers struct {
	plain *http.Transport
	busy  atomic.Int64
	// reads and others are the transports for the requests of clients.
	reads, others http.RoundTripper
}

// newReaders creates connections with the settings of shared.
func newReaders(shared *http.Transport) *readers {
	plain := shared.Clone()
	plain.TLSClientConfig.NextProtos = nil
	plain.TLSNextProto, plain.ForceAttemptHTTP2 = nil, false
	plain.Protocols = new(http.Protocols)
	plain.Protocols.SetHTTP1(true)
	plain.MaxIdleConnsPerHost, plain.IdleConnTimeout = mostReaders, 30*time.Second
	return &readers{plain: plain, reads: counted(plain), others: counted(shared)}
}

// of returns the transport for a request; done has to be called after the answer.
func (s *readers) of(r *http.Request) (by http.RoundTripper, done func()) {
	info, known := genericapirequest.RequestInfoFrom(r.Context())
	if !known || !short(r.Method, info) {
		return s.others, func() {}
	}
	if s.busy.Add(1) > mostReaders {
		s.busy.Add(-1)
		return s.others, func() {}
	}
	return s.reads, func() { s.busy.Add(-1) }
}

// short tells whether a request is a read that is answered at once.
func short(method string, info *genericapirequest.RequestInfo) bool {
	if method != http.MethodGet && method != http.MethodHead {
		return false
	}
	return !info.IsResourceRequest || (info.Verb == "get" || info.Verb == "list") && info.Subresource == ""
}
