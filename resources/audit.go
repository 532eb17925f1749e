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

// Audit records writes. It is told of every one, also of those that are a part of what it records of a client's request. Its methods
// are called by the goroutine that writes.
type Audit interface {
	// Begin comes before a write, and returns the context with which that goes on. An error refuses the write; one of the server's own that
	// the audit does not take is refused with an error that is ErrNotRecorded.
	Begin(ctx context.Context) (context.Context, error)
	// Sent tells what a write is about before admission has seen it: an object in its hub form, or DeleteOptions. That is what a
	// client would have sent, had there been one. It must not be kept. A write that is tried again tells again.
	Sent(ctx context.Context, t *Type, obj runtime.Object)
	// End comes after a write that was begun, once, before it is answered; ctx is that of Begin.
	End(ctx context.Context, e *AuditEvent)
}

// ErrNotRecorded says that a request, or a write of the server's own, was not begun, since the audit that has to take it first did not.
var ErrNotRecorded = errors.New("failed to store audit event")

// AuditEvent is a write that is over, by its outcome.
type AuditEvent struct {
	User user.Info
	// Verb is that of the request: create, update, patch, delete, deletecollection.
	Verb string
	// Resource and Subresource are those of the request.
	Resource    schema.GroupVersionResource
	Subresource string
	Namespace   string
	// Name is empty when the write failed before there was one, and for a collection.
	Name string
	// Type is that of what was written. Nil for an operation.
	Type *Type
	// Object is what was stored, or what was deleted as it was last; nil when nothing was, and for an operation or a collection.
	Object *Object
	// Created: the object is new. Gone: it is removed, and had this UID.
	Created, Gone bool
	UID           types.UID
	DryRun        bool
	// Err is why it failed, before that becomes a Status; nil when the write took effect, or there was nothing to write.
	Err error
}

// begin tells the audit of a write.
func (p *Pipeline) begin(ctx context.Context) (context.Context, error) {
	if p.audit == nil {
		return ctx, nil
	}
	return p.audit.Begin(ctx)
}

// sent tells the audit what it is about.
func (p *Pipeline) sent(ctx context.Context, t *Type, obj runtime.Object) {
	if p.audit != nil {
		p.audit.Sent(ctx, t, obj)
	}
}

// written tells the audit what became of a write.
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

// decided notes on the event of a request how it was authorized, as kube-apiserver does.
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

// noting has plugins look at a write, and notes on the event of the request what they have to say of it. record is upstream's: who
// looks at objects that are made when they are asked for writes into that, too.
func (p *Pipeline) noting(ctx context.Context, record admission.Attributes, look func() error) error {
	if p.audit == nil || audit.AuditContextFrom(ctx) == nil {
		return look()
	}
	return admission.WithAudit(looking(look)).(admission.MutationInterface).Admit(ctx, record, nil)
}

// looking is a plugin that looks.
type looking func() error

func (looking) Handles(admission.Operation) bool { return true }

func (f looking) Admit(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	return f()
}
