package aggregate

import (
	"net/http"
	"sync/atomic"
	"time"

	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// mostReaders is how many reads go over connections of their own at the same time.
const mostReaders = 25

// readers have connections for short reads, by HTTP/1.1, one for a read: that costs half of what HTTP/2 does, whose client has a
// goroutine begin for each request. Watches, and whatever else lasts or comes in numbers, share connections by HTTP/2, as upstream's do. So do
// writes: whoever finds that a connection of HTTP/1.1 has just been closed cannot tell whether a write was made.
type readers struct {
	plain *http.Transport
	busy  atomic.Int64
}

// newReaders makes connections as those of shared are made.
func newReaders(shared *http.Transport) *readers {
	plain := shared.Clone()
	plain.TLSClientConfig.NextProtos = nil
	plain.TLSNextProto, plain.ForceAttemptHTTP2 = nil, false
	plain.Protocols = new(http.Protocols)
	plain.Protocols.SetHTTP1(true)
	plain.MaxIdleConnsPerHost, plain.IdleConnTimeout = mostReaders, 30*time.Second
	return &readers{plain: plain}
}

// of returns what sends a request; done is to be called after the answer.
func (s *readers) of(r *http.Request, shared *http.Transport) (by *http.Transport, done func()) {
	info, known := genericapirequest.RequestInfoFrom(r.Context())
	if !known || !short(r.Method, info) {
		return shared, func() {}
	}
	if s.busy.Add(1) > mostReaders {
		s.busy.Add(-1)
		return shared, func() {}
	}
	return s.plain, func() { s.busy.Add(-1) }
}

// short tells whether a request reads something, at once.
func short(method string, info *genericapirequest.RequestInfo) bool {
	if method != http.MethodGet && method != http.MethodHead {
		return false
	}
	return !info.IsResourceRequest || (info.Verb == "get" || info.Verb == "list") && info.Subresource == ""
}
