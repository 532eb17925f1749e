package auditing

import (
	"context"
	"net/http"
	"net/url"
	goruntime "runtime"
	"strings"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversionscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/upstream"
	"github.com/rowlock/rowlock/server/codec"
	"github.com/rowlock/rowlock/server/status"
)

// optionsCodecs encode the options of deletions.
var optionsCodecs = serializer.NewCodecFactory(metainternalversionscheme.Scheme)

// Auditor records the server's own writes as kube-apiserver records those that it or kube-controller-manager sends: as
// the request that would have been sent.
var _ resources.Audit = (*Auditor)(nil)

// methods are the HTTP methods of verbs.
var methods = map[string]string{"create": http.MethodPost, "update": http.MethodPut, "patch": http.MethodPatch,
	"delete": http.MethodDelete, "deletecollection": http.MethodDelete}

// Loopback is the source address of the server's own requests.
const Loopback = "127.0.0.1:0"

// ControllerAgent is the User-Agent of the controller with a ServiceAccount, as in kube-controller-manager with
// --use-service-account-credentials. The part before the first slash is the field manager of the controller's writes.
func ControllerAgent(username string) string {
	const v = upstream.Release
	return "kube-controller-manager/" + v + " (" + goruntime.GOOS + "/" + goruntime.GOARCH + ") kubernetes/" + v + "/" + username
}

// Begin implements resources.Audit. A write for a client's request is recorded with that request.
func (a *Auditor) Begin(ctx context.Context) (context.Context, error) {
	info, ok := genericapirequest.RequestInfoFrom(ctx)
	if !ok {
		return ctx, nil
	}
	if q, _ := ctx.Value(requestKey{}).(*Request); q != nil && q.info == info {
		return ctx, nil
	}
	ctx, q := a.With(ctx, uuid.NewString(), time.Now())
	q.ours = true
	about := *info
	if about.Verb == "create" && about.Subresource == "" {
		about.Name = "" // the name is in the object
	}
	agent := a.agent
	if who, ok := genericapirequest.UserFrom(ctx); ok && strings.HasPrefix(who.GetName(), serviceaccount.ServiceAccountUsernamePrefix) {
		agent = ControllerAgent(who.GetName())
	}
	r := &http.Request{Method: methods[info.Verb], URL: &url.URL{Path: pathOf(&about)}, Header: http.Header{"User-Agent": {agent}}, RemoteAddr: Loopback}
	if err := q.beginOwn(genericapirequest.WithRequestInfo(ctx, &about), r); err != nil {
		return ctx, err
	}
	q.info = info
	if q.spent != nil {
		ctx = genericapirequest.WithRequestInfo(q.spent, info)
	}
	return ctx, nil
}

// ownIn is how long a write of the server's own waits for a back end: as long as kube-apiserver's requests to itself last.
const ownIn = time.Minute

// beginOwn is Begin for a write of the server's own. It waits for a back end no longer than ctx lasts, nor longer than ownIn: a dead webhook
// is retried for more than a minute, whatever the context. After a timeout, the request must not be used any more, because the goroutine
// that called the back end uses it until that has answered.
func (q *Request) beginOwn(ctx context.Context, r *http.Request) error {
	if err := q.evaluate(ctx, r); err != nil || !q.Enabled() {
		return err
	}
	bounded, end := context.WithTimeout(ctx, ownIn)
	defer end()
	begun := make(chan error, 1)
	go func() {
		_, err := q.receive(ctx, false)
		begun <- err
	}()
	select {
	case err := <-begun:
		if err != nil {
			return notRecorded{apierrors.NewInternalError(err), err}
		}
		return nil
	case <-bounded.Done():
		if err := ctx.Err(); err != nil {
			return err
		}
		return notRecorded{apierrors.NewInternalError(resources.ErrNotRecorded), resources.ErrNotRecorded}
	}
}

// notRecorded is the Status of a write that the audit did not let begin.
type notRecorded struct {
	*apierrors.StatusError
	why error
}

// Unwrap returns the Status and the reason.
func (e notRecorded) Unwrap() []error { return []error{e.StatusError, e.why} }

// apart is a context without the audit of its request.
type apart struct{ context.Context }

// Apart returns ctx without the audit of a request, for another request that is sent within it.
func Apart(ctx context.Context) context.Context {
	if audit.AuditContextFrom(ctx) != nil {
		return apart{ctx}
	}
	return ctx
}

// Value implements context.Context.
func (c apart) Value(key any) any {
	v := c.Context.Value(key)
	switch v.(type) {
	case *audit.AuditContext, *Request, *genericapirequest.LatencyTrackers:
		return nil
	}
	return v
}

// pathOf returns the path of a request for a resource.
func pathOf(info *genericapirequest.RequestInfo) string {
	path := "/apis/" + info.APIGroup + "/" + info.APIVersion
	if info.APIGroup == "" {
		path = "/api/" + info.APIVersion
	}
	if info.Namespace != "" {
		path += "/namespaces/" + info.Namespace
	}
	for _, part := range []string{info.Resource, info.Name, info.Subresource} {
		if part != "" {
			path += "/" + part
		}
	}
	return path
}

// own returns the audit of a write of the server's own, nil if it is not recorded.
func own(ctx context.Context) *Request {
	if q := Of(ctx); q != nil && q.ours {
		return q
	}
	return nil
}

// Sent implements resources.Audit.
func (a *Auditor) Sent(ctx context.Context, t *resources.Type, obj runtime.Object) {
	q := own(ctx)
	if q == nil {
		return
	}
	gvr := t.StorageVersion.WithResource(t.Resource)
	if options, ok := obj.(*metav1.DeleteOptions); ok {
		q.Sent(ctx, options, metav1.SchemeGroupVersion, gvr, "", optionsCodecs)
		return
	}
	info, _ := genericapirequest.RequestInfoFrom(ctx)
	q.Sent(ctx, obj, t.StorageVersion, gvr, info.Subresource, t.Serializer)
}

// End implements resources.Audit.
func (a *Auditor) End(ctx context.Context, e *resources.AuditEvent) {
	q := own(ctx)
	if q == nil {
		return
	}
	code := http.StatusOK
	switch {
	case e.Err != nil:
		st := status.Of(status.ForRequest(e.Err, schema.GroupResource{Group: e.Resource.Group, Resource: e.Resource.Resource}, e.Name, e.Verb))
		code = int(st.Code)
		q.AnsweredStatus(st)
	case e.Gone && !e.Type.ReturnDeletedObject:
		if st, ok := e.Type.DeletedStatus(ctx, e.Name, e.UID).(*metav1.Status); ok {
			st.SetGroupVersionKind(metav1.Unversioned.WithKind("Status"))
			q.AnsweredStatus(st)
		}
	case e.Created:
		code = http.StatusCreated
		fallthrough
	default:
		if e.Object != nil && q.RecordsAnswers() {
			q.Answered(nil, e.Object.Data)
		}
	}
	q.endOwn(ctx, code)
}

// overdueIn is how long a write of the server's own waits for its last event while those of earlier writes are overdue: the back end may
// be dead, and a start writes one object after the other.
const overdueIn = time.Second

// endOwn records the outcome, and waits for a back end no longer than ownIn. It does so even if ctx has ended: the write has to be recorded
// before the audit is closed. As with beginOwn, the request must not be used after a timeout.
func (q *Request) endOwn(ctx context.Context, code int) {
	if !q.Enabled() {
		return
	}
	patience, overdue := ownIn, &q.auditor.overdue
	if overdue.Load() > 0 {
		patience = overdueIn
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		q.Respond(ctx, code)
		q.End(ctx)
	}()
	select {
	case <-ended:
	case <-late.C:
		overdue.Add(1)
		go func() {
			<-ended
			overdue.Add(-1)
		}()
	}
}

// AnsweredStatus records an answer that is a Status, whose kind is set.
func (q *Request) AnsweredStatus(st *metav1.Status) {
	if q == nil {
		return
	}
	var data []byte
	if q.RecordsAnswers() {
		if encoded, err := codec.Value(st, codec.Format{Media: codec.JSON}); err == nil {
			data = encoded
		}
	}
	q.Answered(st, data)
}
