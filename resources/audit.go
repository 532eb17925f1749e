package resources

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// Audit records writes. Its methods are called for every write, also for one that it records as part of a client's request, by the
// goroutine that writes.
type Audit interface {
	// Begin comes before a write, and returns the context for the rest of the write. An error refuses the write; if the audit does not
	// accept a write of the server's own, the error is ErrNotRecorded.
	Begin(ctx context.Context) (context.Context, error)
	// Sent reports the subject of a write before admission has seen it: an object in its hub form, or DeleteOptions, as a client would have
	// sent it if the writer is not a client. The audit must not keep it. A write that is tried again calls Sent again.
	Sent(ctx context.Context, t *Type, obj runtime.Object)
	// End comes once after a write that was begun, before the answer; ctx is the context that Begin returned.
	End(ctx context.Context, e *AuditEvent)
}

// ErrNotRecorded says that the audit has to record a request, or a write of the server's own, before it begins, and failed to.
var ErrNotRecorded = errors.New("failed to store audit event")

// AuditEvent is a finished write with its outcome.
type AuditEvent struct {
	User user.Info
	// Verb is the verb of the request: create, update, patch, delete, deletecollection.
	Verb string
	// Resource and Subresource are those of the request.
	Resource    schema.GroupVersionResource
	Subresource string
	Namespace   string
	// Name is empty when the write failed before there was one, and for a collection.
	Name string
	// Type is the type of the written object. Nil for an operation.
	Type *Type
	// Object is the stored object, or the last state of a deleted one; nil when nothing was written, and for an operation or a collection.
	Object *Object
	// Created: the object is new. Gone: the object is removed, and had this UID.
	Created, Gone bool
	UID           types.UID
	DryRun        bool
	// Err is the error of the write, before it becomes a Status; nil when the write took effect, or there was nothing to write.
	Err error
}

// begin calls Audit.Begin.
func (p *Pipeline) begin(ctx context.Context) (context.Context, error) {
	if p.audit == nil {
		return ctx, nil
	}
	return p.audit.Begin(ctx)
}

// sent calls Audit.Sent.
func (p *Pipeline) sent(ctx context.Context, t *Type, obj runtime.Object) {
	if p.audit != nil {
		p.audit.Sent(ctx, t, obj)
	}
}

// written calls Audit.End with the outcome of a write.
func (p *Pipeline) written(ctx context.Context, e AuditEvent) {
	if p.audit == nil {
		return
	}
	e.Namespace = genericapirequest.NamespaceValue(ctx)
	e.User, _ = genericapirequest.UserFrom(ctx)
	if info, ok := genericapirequest.RequestInfoFrom(ctx); ok {
		e.Verb, e.Subresource = info.Verb, info.Subresource
		e.Resource = schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}
		if e.Name == "" {
			e.Name = info.Name
		}
	}
	if e.Object != nil {
		e.Name = e.Object.Name
	}
	p.audit.End(ctx, &e)
}

// decided annotates the request's audit event with the authorizer's decision, as kube-apiserver does.
func (p *Pipeline) decided(ctx context.Context, decision authorizer.Decision, reason string, err error) {
	if p.audit == nil {
		return
	}
	const decisionKey, reasonKey = "authorization.k8s.io/decision", "authorization.k8s.io/reason"
	switch {
	case decision == authorizer.DecisionAllow:
		audit.AddAuditAnnotations(ctx, decisionKey, "allow", reasonKey, reason)
	case err != nil:
		audit.AddAuditAnnotation(ctx, reasonKey, "internal error")
	default:
		audit.AddAuditAnnotations(ctx, decisionKey, "forbid", reasonKey, reason)
	}
}

// noting runs look, which calls plugins, and copies their annotations to the request's audit event. record is upstream's type: a wrapper
// that makes the objects on demand writes the annotations into record, too.
func (p *Pipeline) noting(ctx context.Context, record admission.Attributes, look func() error) error {
	if p.audit == nil || audit.AuditContextFrom(ctx) == nil {
		return look()
	}
	return admission.WithAudit(looking(look)).(admission.MutationInterface).Admit(ctx, record, nil)
}

// looking is a plugin made of a function.
type looking func() error

func (looking) Handles(admission.Operation) bool { return true }

func (f looking) Admit(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	return f()
}
