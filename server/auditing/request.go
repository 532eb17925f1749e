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

// Request is the audit of one request. Its context has it (Of), and upstream's of the same request (audit.AuditContextFrom), into
// which whoever decides something about the request writes annotations.
type Request struct {
	audit.AuditContext
	auditor *Auditor
	// received is when the request came.
	received time.Time
	// about is what the policy decides by.
	about authorizer.AttributesRecord
	// info says which request it is: what is done for another one within it is not its own.
	info *genericapirequest.RequestInfo
	// omitManagedFields: they are left out of objects.
	omitManagedFields bool
	// stream: the answer is one, or the only event is that of its beginning.
	stream bool
	// ends: there will be an event when it is over.
	ends bool
	// ours: the server's own write, of which there is no request.
	ours bool
	// whoTook is how long it took to find out who sent it.
	whoTook time.Duration
	// last is what remains to be noted when the answer is complete.
	last []func()
	// spent is a context that knows where the time goes.
	spent context.Context
	// forwarded: another server makes the answer.
	forwarded bool
	// writing is when the answer was begun to be written, or its last part was written.
	writing time.Time
}

type requestKey struct{}

// Of is the audit of the request of a context, nil for none: there is no audit, or the policy leaves the request out.
func Of(ctx context.Context) *Request {
	q, _ := ctx.Value(requestKey{}).(*Request)
	if q == nil || !q.Enabled() {
		return nil
	}
	return q
}

// With returns the context of a request with its audit. Nothing is decided about it yet.
func (a *Auditor) With(ctx context.Context, id string, received time.Time) (context.Context, *Request) {
	q := &Request{auditor: a, received: received}
	q.SetEventStage(auditinternal.StageResponseStarted) // as audit.WithAuditContext
	ctx = requestctx.WithAuditContext(Apart(ctx), &q.AuditContext)
	audit.WithAuditID(ctx, types.UID(id))
	return requestctx.Set(ctx, requestKey{}, q), q
}

// Authenticated says how long it took to find out who sent the request.
func (q *Request) Authenticated(took time.Duration) {
	if q != nil {
		q.whoTook = took
	}
}

// Begin has the policy decide about a request, whose context has its user and its RequestInfo, and records that it was received. It
// returns the context that the request goes on with. stream: its answer is one.
//
// Errors: resources.ErrNotRecorded, where a back end that has to take every first event did not; that of ctx, where it ended before a webhook had
// an answer. The request is not to be carried out.
func (q *Request) Begin(ctx context.Context, r *http.Request, stream bool) (context.Context, error) {
	if err := q.evaluate(ctx, r); err != nil || !q.Enabled() {
		return ctx, err
	}
	if _, limited := ctx.Deadline(); !limited || !q.auditor.waits {
		return q.receive(ctx, stream)
	}
	taken := make(chan bool, 1)
	go func() { // it may go on for longer than the request, and nothing else is recorded of it then
		taken <- q.ProcessEventStage(context.Background(), auditinternal.StageRequestReceived)
	}()
	select {
	case ok := <-taken:
		return q.begun(ctx, stream, ok)
	case <-ctx.Done():
		return ctx, ctx.Err()
	}
}

// receive records that a request was received, of which there are to be events.
func (q *Request) receive(ctx context.Context, stream bool) (context.Context, error) {
	return q.begun(ctx, stream, q.ProcessEventStage(ctx, auditinternal.StageRequestReceived))
}

// begun goes on with a request whose first event was taken, or not.
func (q *Request) begun(ctx context.Context, stream, taken bool) (context.Context, error) {
	if !taken {
		audit.ApiserverAuditDroppedCounter.WithContext(ctx).Inc()
		return ctx, resources.ErrNotRecorded
	}
	q.stream, q.ends = stream, true
	q.spent = ctx
	if q.ours { // a client's has them from its beginning
		q.spent = requestctx.WithLatencyTrackers(ctx)
	}
	genericapirequest.TrackAuthenticationLatency(q.spent, q.whoTook)
	return q.spent, nil
}

// Refuse has the policy decide about a request that is refused before it is known who sent it, or what. There is one event, when the
// answer begins; reason is what it says until then.
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

// Respond records the code of the answer, before that is sent. It is for the first one.
func (q *Request) Respond(ctx context.Context, code int) {
	q.SetEventResponseStatusCode(int32(code)) //nolint:gosec // of HTTP
	if q.stream {
		q.ProcessEventStage(ctx, auditinternal.StageResponseStarted)
	}
}

// Panicked records that answering ended in a panic.
func (q *Request) Panicked(ctx context.Context, cause any) {
	if !q.ends {
		return
	}
	q.ends, q.stream = false, false // the answer that says so is no stage of its own
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

// Made says since when an answer was made, of which nothing is written yet: objects were converted, and a Table was filled.
func (q *Request) Made(began time.Time) {
	if t := q.trackers(); t != nil {
		t.TransformTracker.TrackDuration(time.Since(began))
	}
}

// Forwarded says that another server makes the answer, of which nothing is encoded here.
func (q *Request) Forwarded() {
	if q != nil {
		q.forwarded = true
	}
}

// Writing says that an answer that is no stream begins to be written.
func (q *Request) Writing() { q.writing = time.Now() }

// Wrote says that a part of the answer was written, and since when. What kube-apiserver counts as serialization has that in it: it encodes while
// it writes. It does not count that of what is no object of the API.
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

// trackers are nil where nobody is told where the time of a request went.
func (q *Request) trackers() *genericapirequest.LatencyTrackers {
	if q == nil || !q.ends {
		return nil
	}
	t, _ := genericapirequest.LatencyTrackersFrom(q.spent)
	return t
}

// Last has something noted when the answer is complete, which the event of its beginning does not have.
func (q *Request) Last(note func()) { q.last = append(q.last, note) }

// slow is how long a request takes of which it is recorded where its time went.
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
