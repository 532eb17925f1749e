package auditing

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/requestctx"
)

// Request is the audit of one request. The context of the request has it (Of), and upstream's audit context
// (audit.AuditContextFrom), into which code that decides anything about the request writes annotations.
type Request struct {
	audit.AuditContext
	auditor *Auditor
	// received is when the request arrived.
	received time.Time
	// about are the attributes that the policy uses.
	about authorizer.AttributesRecord
	// info identifies the request: the work for another request within it is not recorded with it.
	info *genericapirequest.RequestInfo
	// omitManagedFields: managedFields are left out of objects.
	omitManagedFields bool
	// stream: the answer is a stream, or the only event is that of its beginning.
	stream bool
	// ends: there will be an event when the request is over.
	ends bool
	// ours: this is a write of the server's own, for which there is no request.
	ours bool
	// whoTook is how long authentication took.
	whoTook time.Duration
	// last are the functions to call when the answer is complete.
	last []func()
	// spent is the context with the latency trackers.
	spent context.Context
	// forwarded: another server produces the answer.
	forwarded bool
	// writing is when writing the answer began, or when its last part was written.
	writing time.Time
}

type requestKey struct{}

// Of returns the audit of the request of a context, or nil: there is no audit, or the policy omits the request.
func Of(ctx context.Context) *Request {
	q, _ := ctx.Value(requestKey{}).(*Request)
	if q == nil || !q.Enabled() {
		return nil
	}
	return q
}

// With returns the context of a request with its audit. The policy has not decided about the request yet.
func (a *Auditor) With(ctx context.Context, id string, received time.Time) (context.Context, *Request) {
	q := &Request{auditor: a, received: received}
	q.SetEventStage(auditinternal.StageResponseStarted) // as audit.WithAuditContext
	ctx = requestctx.WithAuditContext(Apart(ctx), &q.AuditContext)
	audit.WithAuditID(ctx, types.UID(id))
	return requestctx.Set(ctx, requestKey{}, q), q
}

// Authenticated records how long authentication took.
func (q *Request) Authenticated(took time.Duration) {
	if q != nil {
		q.whoTook = took
	}
}

// Begin evaluates the policy for a request, whose context has its user and its RequestInfo, and records that it was received. It returns the
// context for the rest of the request. stream: its answer is a stream.
//
// Errors: resources.ErrNotRecorded, when a back end that must accept every first event did not; that of ctx, when it ended before a webhook
// answered. The request must not be carried out then.
func (q *Request) Begin(ctx context.Context, r *http.Request, stream bool) (context.Context, error) {
	if err := q.evaluate(ctx, r); err != nil || !q.Enabled() {
		return ctx, err
	}
	if _, limited := ctx.Deadline(); !limited || !q.auditor.waits {
		return q.receive(ctx, stream)
	}
	taken := make(chan bool, 1)
	go func() { // it may outlast the request, of which nothing else is recorded then
		taken <- q.ProcessEventStage(context.Background(), auditinternal.StageRequestReceived)
	}()
	select {
	case ok := <-taken:
		return q.begun(ctx, stream, ok)
	case <-ctx.Done():
		return ctx, ctx.Err()
	}
}

// receive records that a request was received for which events are recorded.
func (q *Request) receive(ctx context.Context, stream bool) (context.Context, error) {
	return q.begun(ctx, stream, q.ProcessEventStage(ctx, auditinternal.StageRequestReceived))
}

// begun continues a request after its first event. taken: the back ends accepted the event.
func (q *Request) begun(ctx context.Context, stream, taken bool) (context.Context, error) {
	if !taken {
		audit.ApiserverAuditDroppedCounter.WithContext(ctx).Inc()
		return ctx, resources.ErrNotRecorded
	}
	q.stream, q.ends = stream, true
	q.spent = ctx
	if q.ours { // a client's request has trackers from its beginning
		q.spent = requestctx.WithLatencyTrackers(ctx)
	}
	genericapirequest.TrackAuthenticationLatency(q.spent, q.whoTook)
	return q.spent, nil
}

// Refuse evaluates the policy for a request that is refused before its user or its attributes are known. There is one event, when
// the answer begins; reason is its message until then.
func (q *Request) Refuse(ctx context.Context, r *http.Request, reason string) error {
	if err := q.evaluate(ctx, r); err != nil || !q.Enabled() {
		return err
	}
	q.SetEventResponseStatus(&metav1.Status{Message: reason})
	q.stream = true
	return nil
}

func (q *Request) evaluate(ctx context.Context, r *http.Request) error {
	a := &q.about
	a.User, _ = genericapirequest.UserFrom(ctx)
	info, ok := genericapirequest.RequestInfoFrom(ctx)
	if !ok {
		return errors.New("failed to create audit event")
	}
	q.info = info
	a.Verb, a.Namespace, a.APIGroup, a.APIVersion, a.Resource, a.Subresource = info.Verb, info.Namespace, info.APIGroup, info.APIVersion, info.Resource, info.Subresource
	a.Name, a.Path, a.ResourceRequest = info.Name, info.Path, info.IsResourceRequest
	return q.initialize(ctx, r)
}

func (q *Request) initialize(ctx context.Context, r *http.Request) error {
	config := q.auditor.policy.EvaluatePolicyRule(&q.about)
	audit.ObservePolicyLevel(ctx, config.Level)
	if err := q.Init(config, q.auditor.backend); err != nil {
		return fmt.Errorf("failed to create audit event: %w", err)
	}
	q.omitManagedFields = config.OmitManagedFields
	audit.LogRequestMetadata(ctx, r, q.received, &q.about)
	return nil
}

// Respond records the code of the answer before the answer is sent. It is called once, for the first code.
func (q *Request) Respond(ctx context.Context, code int) {
	q.SetEventResponseStatusCode(int32(code)) //nolint:gosec // of HTTP
	if q.stream {
		q.ProcessEventStage(ctx, auditinternal.StageResponseStarted)
	}
}

// Panicked records that handling the request ended in a panic.
func (q *Request) Panicked(ctx context.Context, cause any) {
	if !q.ends {
		return
	}
	q.ends, q.stream = false, false // the answer that reports the panic has no stage of its own
	q.SetEventResponseStatus(&metav1.Status{Code: http.StatusInternalServerError, Status: metav1.StatusFailure,
		Reason: metav1.StatusReasonInternalError, Message: fmt.Sprintf("APIServer panic'd: %v", cause)})
	q.ProcessEventStage(ctx, auditinternal.StagePanic)
}

// End records that the answer is complete.
func (q *Request) End(ctx context.Context) {
	if !q.ends {
		return
	}
	q.ends = false
	if q.GetEventResponseStatus() == nil {
		q.SetEventResponseStatus(&metav1.Status{Code: http.StatusOK, Status: metav1.StatusSuccess, Message: "Connection closed early"})
		if q.stream {
			q.ProcessEventStage(ctx, auditinternal.StageResponseStarted)
		}
	}
	for _, note := range q.last {
		note()
	}
	q.noteLatency()
	q.ProcessEventStage(ctx, auditinternal.StageResponseComplete)
}

// Made records the time since began as the time of producing the answer, before any of it is written: converting objects and filling a Table.
func (q *Request) Made(began time.Time) {
	if t := q.trackers(); t != nil {
		t.TransformTracker.TrackDuration(time.Since(began))
	}
}

// Forwarded records that another server produces the answer, and that nothing is encoded here.
func (q *Request) Forwarded() {
	if q != nil {
		q.forwarded = true
	}
}

// Writing records the time at which writing an answer begins. The answer is not a stream.
func (q *Request) Writing() { q.writing = time.Now() }

// Wrote records that a part of the answer was written since began. kube-apiserver's serialization time includes writing, since it encodes while
// it writes. It does not count answers that are not API objects.
func (q *Request) Wrote(began time.Time) {
	t := q.trackers()
	if t == nil {
		return
	}
	now := time.Now()
	t.ResponseWriteTracker.TrackDuration(now.Sub(began))
	if !q.forwarded && (q.info.IsResourceRequest || strings.HasPrefix(q.info.Path, "/api")) { // discovery
		t.SerializationTracker.TrackDuration(now.Sub(q.writing))
		q.writing = now
	}
}

// trackers returns nil when the latencies of the request are not recorded.
func (q *Request) trackers() *genericapirequest.LatencyTrackers {
	if q == nil || !q.ends {
		return nil
	}
	t, _ := genericapirequest.LatencyTrackersFrom(q.spent)
	return t
}

// Last registers a function to be called when the answer is complete. The event of the beginning of the answer does not have its result.
func (q *Request) Last(note func()) { q.last = append(q.last, note) }

// slow is the duration from which on the latencies of a request are recorded.
const slow = 500 * time.Millisecond

func (q *Request) noteLatency() {
	took := time.Since(q.GetEventRequestReceivedTimestamp().Time)
	if took <= slow {
		return
	}
	if parts := genericapirequest.AuditAnnotationsFromLatencyTrackers(q.spent); len(parts) > 0 {
		parts["apiserver.latency.k8s.io/total"] = took.String()
		audit.AddAuditAnnotationsMap(q.spent, parts)
	}
}
