package aggregate

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	utilproxy "k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/client-go/transport"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/rowlock/rowlock/resources/requestctx"
	"github.com/rowlock/rowlock/server/auditing"
)

// unavailable is the message for clients, whatever the reason; the status of the APIService has the reason.
const unavailable = "service unavailable"

// Forward forwards a request with the user of its context, and the answer. Streams (watches, logs) and upgrades are forwarded
// as they come. An error, context.DeadlineExceeded, says that there is no answer, because the deadline of the request has passed.
func (b *Backend) Forward(w http.ResponseWriter, r *http.Request) error {
	auditing.Of(r.Context()).Forwarded()
	if !b.available {
		return fail(w, r, unavailable, http.StatusServiceUnavailable)
	}
	return b.pass(w, r)
}

// pass is Forward without the check of availability.
func (b *Backend) pass(w http.ResponseWriter, r *http.Request) error {
	if b.transportErr != nil {
		return fail(w, r, b.transportErr.Error(), http.StatusInternalServerError)
	}
	who, ok := genericapirequest.UserFrom(r.Context())
	if !ok {
		return fail(w, r, "missing user", http.StatusInternalServerError)
	}
	location, err := b.resolve(r.Context())
	if err != nil {
		b.owner.Logger.Warn("the server of an APIService is not found", "service", b.service.Namespace+"/"+b.service.Name, "error", err)
		return fail(w, r, unavailable, http.StatusServiceUnavailable)
	}
	location.Path, location.RawQuery = r.URL.Path, r.URL.Query().Encode()
	sent, cancel := utilproxy.NewRequestForProxy(location, r)
	defer cancel()
	if id := w.Header().Get("Audit-Id"); id != "" {
		sent.Header.Set("Audit-Id", id)
	}
	uid := b.uidOf(who)
	upgrade := httpstream.IsUpgradeRequest(r)
	if upgrade {
		// An upgrade dials the connection itself; the transport does not send its headers.
		transport.SetAuthProxyHeaders(sent, who.GetName(), uid, who.GetGroups(), who.GetExtra())
	}
	by, done := b.reads.of(r)
	defer done()
	through := transport.NewAuthProxyRoundTripper(who.GetName(), uid, who.GetGroups(), who.GetExtra(), by)
	answer := &responder{of: r.Context()}
	h := proxy.NewUpgradeAwareHandler(location, through, true, upgrade, answer)
	// A server must not redirect the client, with its permissions here, to where it would not go by itself.
	h.RejectForwardingRedirects = !b.owner.PassRedirects
	h.ServeHTTP(w, sent)
	return answer.err
}

// fail answers a request that is not forwarded, and counts it as kube-aggregator does. It returns nil.
func fail(w http.ResponseWriter, r *http.Request, text string, code int) error {
	http.Error(w, text, code)
	if info, ok := genericapirequest.RequestInfoFrom(r.Context()); ok {
		metrics.RecordRequestTermination(r, info, "aggregator", code)
	}
	return nil
}

func (b *Backend) uidOf(who user.Info) string {
	if !b.owner.UID {
		return ""
	}
	return who.GetUID()
}

// responder reports errors of a connection before an answer has begun.
type responder struct {
	of  context.Context // of the client's request; the one that is sent has a limit of its own for discovery
	err error
}

// Error implements upstream's proxy.ErrorResponder.
func (a *responder) Error(w http.ResponseWriter, _ *http.Request, err error) {
	if requestctx.Late(a.of) {
		a.err = context.DeadlineExceeded
		return
	}
	http.Error(w, err.Error(), http.StatusServiceUnavailable)
}
