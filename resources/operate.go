package resources

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/apiserver/pkg/warning"
)

// OperationRequest is a create that is an operation rather than an object: a review, a binding, an eviction.
type OperationRequest struct {
	Type *Type
	// Name is the name of the parent, empty for a virtual type.
	Name string
	// Do is the operation.
	Do CreateFunc
	// Complete fills in fields that the client left out, before validating admission, and refuses an invalid object. May be nil.
	Complete CompleteFunc
	// Decode makes the hub form of the body, and may set Options.
	Decode func() (runtime.Object, error)
	// Options are the options of the request. Nil: none.
	Options *metav1.CreateOptions
}

// Operation is the access of an operation to the store, once it has been admitted: its writes are part of the request and follow
// the rules of the types, but are not authorized and admitted a second time, as in kube-apiserver.
type Operation struct {
	Reader
	inner *Pipeline
	outer *Pipeline
	// admitted is the operation of a virtual type as admission sees it; see Validate.
	admitted *admitted
}

// Operate carries out an operation.
//
// Errors are API status errors, or those of the Store that the caller maps.
func (p *Pipeline) Operate(ctx context.Context, r *OperationRequest) (runtime.Object, error) {
	ctx, err := p.begin(ctx)
	if err != nil {
		return nil, err
	}
	result, err := p.operate(ctx, r)
	p.written(ctx, AuditEvent{Name: r.Name, DryRun: r.Options != nil && dryrun.IsDryRun(r.Options.DryRun), Err: err})
	return result, err
}

func (p *Pipeline) operate(ctx context.Context, r *OperationRequest) (runtime.Object, error) {
	if err := p.authorize(ctx); err != nil {
		return nil, err
	}
	obj, err := r.Decode()
	if err != nil {
		return nil, err
	}
	if r.Options == nil {
		r.Options = plainCreate
	}
	a := admitted{t: r.Type, obj: obj, op: admission.Create, options: r.Options, dryRun: dryrun.IsDryRun(r.Options.DryRun)}
	if err := p.admit(ctx, a); err != nil {
		return nil, err
	}
	if r.Complete != nil {
		if ctx, err = r.Complete(ctx, p.within, r.Name, obj, r.Options); err != nil {
			return nil, err
		}
	}
	if r.Type.Virtual != nil {
		o := *p.within
		o.admitted = &a
		return r.Do(ctx, &o, r.Name, obj, r.Options)
	}
	if err := p.validate(ctx, a); err != nil {
		return nil, err
	}
	return r.Do(ctx, p.within, r.Name, obj, r.Options)
}

// Connect authorizes and admits a connection to an object's counterpart (exec, proxy), with the options that decode reads from
// the path. It writes nothing, and does not look at the traffic of the connection.
//
// Errors are API status errors.
func (p *Pipeline) Connect(ctx context.Context, t *Type, decode func() (runtime.Object, error)) error {
	if err := p.authorize(ctx); err != nil {
		return err
	}
	options, err := decode()
	if err != nil {
		return err
	}
	return p.allow(ctx, admitted{t: t, obj: options, op: admission.Connect})
}

// Validate runs validating admission on the object of a virtual type, which Type.Virtual has found valid.
func (o *Operation) Validate(ctx context.Context, obj runtime.Object) error {
	o.admitted.obj = obj
	return o.outer.validate(ctx, *o.admitted)
}

// Update changes an object as part of the operation; see Pipeline.Update.
func (o *Operation) Update(ctx context.Context, r *UpdateRequest) (stored *Object, created bool, err error) {
	return o.inner.Update(ctx, r)
}

// UpdateSubresource changes a subresource of an object by a request of the server's own, which is authorized, admitted and audited as one. It is for
// what kube-apiserver does through its loopback client.
func (o *Operation) UpdateSubresource(ctx context.Context, key Key, subresource string, r *UpdateRequest) error {
	ctx = warning.WithWarningRecorder(APIServer.Request(ctx, "update", r.Type, key, subresource), unwarned{})
	_, _, err := o.outer.Update(ctx, r)
	return err
}

// unwarned drops the warnings about a request that the client did not send.
type unwarned struct{}

// AddWarning implements warning.Recorder.
func (unwarned) AddWarning(string, string) {}

// Delete deletes an object as part of the operation; see Pipeline.Delete.
func (o *Operation) Delete(ctx context.Context, r *DeleteRequest) (Deleted, error) {
	return o.inner.Delete(ctx, r)
}

// Rewrite changes an object as part of the operation, without the rules of its type for updates; see GuaranteedUpdate.
func (o *Operation) Rewrite(ctx context.Context, key Key, change func(current *Object) ([]Write, error)) (*Object, error) {
	return GuaranteedUpdate(ctx, o.inner.store, key, change)
}
