package resources

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rowlock/rowlock/resources/requestctx"
)

// View is a Store without its Writer, for handlers, controllers and bootstrap.
type View interface {
	Reader
	Watcher
}

// Pipeline is the one path of every write of an object, by any of its writers: a client's request, a controller, bootstrap, a
// repair. Nothing else has a Writer; Rowlock's own rows go through Rows. A write passes, in this order:
//
//	identity             the user and the RequestInfo of the context (genericapirequest); see Actor for the server's own
//	authorize            403, before anything is read
//	decode               the request: the form of the answer, the options, the body, into the hub form
//	mutating admission   ┐
//	allocate             │ repeated for every attempt, where the object is computed from the current one: from decoding
//	strategy, validation │ for an update, from allocating for a create
//	validating admission │
//	commit               ┘ on condition that no other write came in between (GuaranteedUpdate)
//	audit                once, whatever the outcome; it has been told of the write before all that
//
// Preconditions (a uid, a resourceVersion, a controller's own check) are checked on the current object in every attempt, before
// validating admission is called: they are the requester's, and admission has no part in them.
//
// Only the objects that are deleted together with their definition skip authorization, admission and audit; see DeleteInstances.
//
// It is safe for concurrent use.
type Pipeline struct {
	store      Store
	mutating   admission.MutationInterface
	validating admission.ValidationInterface
	authorizer authorizer.UnconditionalAuthorizer
	audit      Audit
	// count is called with each authorization decision. May be nil.
	count func(authorizer.Decision, error, time.Duration)
	// registry has the types that plugins ask about where the context of a write has no catalog.
	registry *Registry
	// within is set in the pipeline for the parts of an admitted write, and for the objects of a definition that is being deleted: it
	// skips authorization, admission and audit.
	within *Operation
}

// PipelineOptions are the parts of a Pipeline that decide and record.
type PipelineOptions struct {
	// Authorizer decides which requests are allowed. Nil: all are.
	Authorizer authorizer.UnconditionalAuthorizer
	// Audit records every write. Nil: there is no audit.
	Audit Audit
}

// NewPipeline returns the pipeline to a store. It has no admission yet; see Use.
func NewPipeline(s Store, o PipelineOptions) *Pipeline {
	s = &timed{Store: s, noted: o.Audit != nil}
	p := &Pipeline{store: s, authorizer: o.Authorizer, audit: o.Audit}
	p.within = &Operation{Reader: s, inner: &Pipeline{store: s}, outer: p}
	return p
}

// Use makes the plugins see every write from now on. It comes before the first write, and is separate from NewPipeline because
// plugins reach the API through the server, which writes through the pipeline. registry has the types that are served; nil: plugins
// of a write whose context has no catalog see only the type of the write.
func (p *Pipeline) Use(plugins admission.Interface, registry *Registry) {
	p.mutating, _ = plugins.(admission.MutationInterface)
	p.validating, _ = plugins.(admission.ValidationInterface)
	p.registry = registry
}

// Count registers a callback for every authorization decision and its duration; it comes before the first request.
func (p *Pipeline) Count(count func(decision authorizer.Decision, err error, took time.Duration)) {
	p.count = count
}

// CountCommits registers a callback for every commit and its duration in the store; it comes before the first write.
func (p *Pipeline) CountCommits(count func(writes []Write, err error, took time.Duration)) {
	p.store.(*timed).commits = count
}

// permission says that a user is allowed a request.
type permission struct {
	who  user.Info
	info *genericapirequest.RequestInfo
}

type permissionKey struct{}

// Authorize asks whether the user of the context may make the request of its RequestInfo, a write or not. It returns a context that
// records the permission, so that a write in it is not authorized again. A context that is made from it for another user or another
// request has to be authorized again.
//
// Errors: a Forbidden status, or an InternalError when the authorizer failed.
func (p *Pipeline) Authorize(ctx context.Context) (context.Context, error) {
	if p.authorizer == nil {
		return ctx, nil
	}
	who, _ := genericapirequest.UserFrom(ctx)
	info, ok := genericapirequest.RequestInfoFrom(ctx)
	if !ok {
		return ctx, apierrors.NewInternalError(errors.New("no RequestInfo found in the context"))
	}
	a := attributes(who, info)
	began := time.Now()
	decision, reason, err := p.authorizer.Authorize(ctx, &a)
	if p.count != nil {
		p.count(decision, err, time.Since(began))
	}
	p.decided(ctx, decision, reason, err)
	if err := judged(&a, decision, reason, err); err != nil {
		return ctx, err
	}
	return requestctx.Set(ctx, permissionKey{}, permission{who, info}), nil
}

// authorize is Authorize for a write, unless the context has the permission already.
func (p *Pipeline) authorize(ctx context.Context) error {
	if p.authorizer == nil {
		return nil
	}
	who, _ := genericapirequest.UserFrom(ctx)
	info, _ := genericapirequest.RequestInfoFrom(ctx)
	if known, ok := ctx.Value(permissionKey{}).(permission); ok && known == (permission{who, info}) {
		return nil
	}
	_, err := p.Authorize(ctx)
	return err
}

// authorizeCreate asks whether the user may create the object that an update or a patch is about to create, as kube-apiserver does.
func (p *Pipeline) authorizeCreate(ctx context.Context) error {
	info, ok := genericapirequest.RequestInfoFrom(ctx)
	if p.authorizer == nil || !ok || info.Verb == "create" {
		return nil
	}
	who, _ := genericapirequest.UserFrom(ctx)
	return p.ask(ctx, who, info, "create")
}

// Decide asks the authorizer about attributes that differ from the request's own. Without an authorizer everything is allowed.
func (p *Pipeline) Decide(ctx context.Context, a *authorizer.AttributesRecord) (decision authorizer.Decision, reason string, err error) {
	if p.authorizer == nil {
		return authorizer.DecisionAllow, "", nil
	}
	return p.authorizer.Authorize(ctx, a)
}

// Attributes are the authorization attributes of the context's request and user.
func (p *Pipeline) Attributes(ctx context.Context) (authorizer.AttributesRecord, error) {
	info, ok := genericapirequest.RequestInfoFrom(ctx)
	if !ok {
		return authorizer.AttributesRecord{}, apierrors.NewInternalError(errors.New("no RequestInfo found in the context"))
	}
	who, _ := genericapirequest.UserFrom(ctx)
	return attributes(who, info), nil
}

func (p *Pipeline) ask(ctx context.Context, who user.Info, info *genericapirequest.RequestInfo, verb string) error {
	a := attributes(who, info)
	a.Verb = verb
	return Ask(ctx, p.authorizer, &a)
}

// Ask asks an authorizer whether a request is allowed.
//
// Errors: a Forbidden status in kube-apiserver's words, or an InternalError when the authorizer failed.
func Ask(ctx context.Context, by authorizer.UnconditionalAuthorizer, a *authorizer.AttributesRecord) error {
	decision, reason, err := by.Authorize(ctx, a)
	return judged(a, decision, reason, err)
}

func judged(a *authorizer.AttributesRecord, decision authorizer.Decision, reason string, err error) error {
	switch {
	case decision == authorizer.DecisionAllow:
		return nil // an authorizer may fail on some rules and still allow the request
	case err != nil:
		return apierrors.NewInternalError(err)
	}
	return Forbidden(a, reason)
}

// Forbidden is the error of a request that is not allowed, in kube-apiserver's words.
func Forbidden(a *authorizer.AttributesRecord, reason string) error {
	message := forbidden(a)
	if reason != "" {
		message += ": " + reason
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: a.APIGroup, Resource: a.Resource}, a.Name, errors.New(message))
}

// attributes describe a request as kube-apiserver does to authorizers. Invalid selectors become errors in the attributes, which the
// authorizer judges.
func attributes(who user.Info, info *genericapirequest.RequestInfo) authorizer.AttributesRecord {
	a := authorizer.AttributesRecord{User: who, Verb: info.Verb, Namespace: info.Namespace, APIGroup: info.APIGroup, APIVersion: info.APIVersion,
		Resource: info.Resource, Subresource: info.Subresource, Name: info.Name, ResourceRequest: info.IsResourceRequest, Path: info.Path}
	if info.FieldSelector != "" {
		if s, err := fields.ParseSelector(info.FieldSelector); err != nil {
			a.FieldSelectorParsingErr = err
		} else if all := s.Requirements(); len(all) > 0 {
			a.FieldSelectorRequirements = all
		}
	}
	if info.LabelSelector != "" {
		if s, err := labels.Parse(info.LabelSelector); err != nil {
			a.LabelSelectorParsingErr = err
		} else if all, _ := s.Requirements(); len(all) > 0 {
			a.LabelSelectorRequirements = all
		}
	}
	return a
}

// pageEscaper escapes HTML in an answer, so that no browser renders it.
var pageEscaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// forbidden is kube-apiserver's text.
func forbidden(a *authorizer.AttributesRecord) string {
	name := ""
	if a.User != nil {
		name = a.User.GetName()
	}
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	text := ""
	switch {
	case !a.ResourceRequest:
		text = fmt.Sprintf("User %q cannot %s path %q", name, a.Verb, a.Path)
	case a.Namespace != "":
		text = fmt.Sprintf("User %q cannot %s resource %q in API group %q in the namespace %q", name, a.Verb, resource, a.APIGroup, a.Namespace)
	default:
		text = fmt.Sprintf("User %q cannot %s resource %q in API group %q at the cluster scope", name, a.Verb, resource, a.APIGroup)
	}
	return pageEscaper.Replace(text)
}
