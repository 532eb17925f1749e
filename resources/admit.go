package resources

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// admitted is one call of admission for a write: mutating admission before the rules of the type, validating admission after them.
type admitted struct {
	t        *Type
	obj, old runtime.Object
	// name is the name that a new object was sent with. Empty: it has none yet, or the path has the name.
	name    string
	op      admission.Operation
	options runtime.Object
	dryRun  bool
	// load, when set, returns obj and old once a plugin asks for one of them.
	load func() (obj, old runtime.Object)
}

// admit runs mutating admission. It reverts managedFields that the plugins left in a form that cannot be read, with a warning.
func (p *Pipeline) admit(ctx context.Context, a admitted) error {
	if p.mutating == nil || !p.mutating.Handles(a.op) {
		return nil
	}
	before := managersOf(a.obj)
	record, shown := a.attributes(ctx)
	if err := p.noting(ctx, record, func() error { return p.mutating.Admit(ctx, shown, p.interfaces(ctx, a.t)) }); err != nil {
		return ofPlugin(err)
	}
	if now := managersOf(a.obj); !now.is(before) {
		now.keepValid(ctx, before)
	}
	return nil
}

// validate runs validating admission.
func (p *Pipeline) validate(ctx context.Context, a admitted) error {
	if p.validating == nil || !p.validating.Handles(a.op) {
		return nil
	}
	record, shown := a.attributes(ctx)
	return ofPlugin(p.noting(ctx, record, func() error { return p.validating.Validate(ctx, shown, p.interfaces(ctx, a.t)) }))
}

// ofPlugin returns the error of a plugin without a Status that it only wraps. kube-apiserver answers with a 500 and the whole text then, which tells
// a kubelet that it may try again.
func ofPlugin(err error) error {
	var status apierrors.APIStatus
	if _, is := err.(apierrors.APIStatus); is || !errors.As(err, &status) { //nolint:errorlint // the error itself
		return err
	}
	return errors.New(err.Error())
}

// allow runs mutating and validating admission, for writes whose type has no rules between the two.
func (p *Pipeline) allow(ctx context.Context, a admitted) error {
	if err := p.admit(ctx, a); err != nil {
		return err
	}
	return p.validate(ctx, a)
}

func (p *Pipeline) interfaces(ctx context.Context, t *Type) objectInterfaces {
	return objectInterfaces{t, ctx, p.registry}
}

// attributes describe the write. Plugins get the second value (shown); their audit annotations go into the first (record), which may
// be the same. The request's resource, user and namespace come from the context.
func (a admitted) attributes(ctx context.Context) (record, shown admission.Attributes) {
	who, _ := genericapirequest.UserFrom(ctx)
	namespace := genericapirequest.NamespaceValue(ctx)
	gv, resource, subresource, name := a.t.requestVersion(ctx), a.t.Resource, "", ""
	if info, ok := genericapirequest.RequestInfoFrom(ctx); ok {
		resource, subresource, name = info.Resource, info.Subresource, info.Name
	}
	kind := gv.WithKind(a.t.Kind)
	if sub := a.t.Subresources[subresource]; sub != nil && !sub.Kind.Empty() {
		kind = sub.Kind
	}
	if name == "" {
		name = a.name
	}
	if a.t.isNamespaces() {
		namespace = name // not a generated one, as in kube-apiserver
	}
	if name == "" && a.op == admission.Create {
		if m, err := meta.Accessor(a.obj); err == nil { // else a kind without metadata
			name = m.GetName() // each attempt of generateName has its own name
		}
	}
	record = admission.NewAttributesRecord(a.obj, a.old, kind, namespace, name, gv.WithResource(resource), subresource, a.op, a.options, a.dryRun, who)
	if a.load != nil {
		return record, lazyAttributes{record, a.load}
	}
	return record, record
}

func (t *Type) isNamespaces() bool { return t.Resource == "namespaces" && t.Group == "" }

// objectInterfaces answer what plugins ask about a type, in the context of a request.
type objectInterfaces struct {
	t        *Type
	ctx      context.Context
	registry *Registry // nil: see Pipeline.Use
}

func (o objectInterfaces) GetObjectCreater() runtime.ObjectCreater     { return o.t.Scheme }
func (o objectInterfaces) GetObjectTyper() runtime.ObjectTyper         { return o.t.Scheme }
func (o objectInterfaces) GetObjectDefaulter() runtime.ObjectDefaulter { return o.t.Scheme }
func (o objectInterfaces) GetObjectConvertor() runtime.ObjectConvertor {
	if s, ok := o.t.Scheme.(admissionScheme); ok {
		return s.ForAdmission()
	}
	return o.t.Scheme
}

func (o objectInterfaces) GetEquivalentResourceMapper() runtime.EquivalentResourceMapper {
	return equivalents{o}
}

// admissionScheme is a scheme whose convertor for plugins differs from its convertor for clients.
type admissionScheme interface {
	ForAdmission() runtime.ObjectConvertor
}

// Plugins see these options for a write that came without any: the options of a client that set nothing. They are shared and must not
// be changed.
var (
	plainCreate = &metav1.CreateOptions{TypeMeta: optionsKind("CreateOptions")}
	plainUpdate = &metav1.UpdateOptions{TypeMeta: optionsKind("UpdateOptions")}
)

func optionsKind(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{Kind: kind, APIVersion: metav1.SchemeGroupVersion.String()}
}

// createOptionsOf converts the options of an update that creates the object, since there is none.
func createOptionsOf(o *metav1.UpdateOptions) *metav1.CreateOptions {
	return &metav1.CreateOptions{TypeMeta: optionsKind("CreateOptions"), DryRun: o.DryRun, FieldManager: o.FieldManager,
		FieldValidation: o.FieldValidation}
}
