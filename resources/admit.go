package resources

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// admitted is one look of admission at a write: before the rules of the type, or after them.
type admitted struct {
	t        *Type
	obj, old runtime.Object
	// name is what a new object was sent with. Empty: it has none yet, or the path has it.
	name    string
	op      admission.Operation
	options runtime.Object
	dryRun  bool
	// load, when set, returns obj and old when a plugin asks for one of them.
	load func() (obj, old runtime.Object)
}

// admit runs mutating admission. What it makes of managedFields that nobody could read is taken back, with a warning.
func (p *Pipeline) admit(ctx context.Context, a admitted) error {
	if p.mutating == nil || !p.mutating.Handles(a.op) {
		return nil
	}
	before := managersOf(a.obj)
	record, shown := a.attributes(ctx)
	if err := p.noting(ctx, record, func() error { return p.mutating.Admit(ctx, shown, p.interfaces(ctx, a.t)) }); err != nil {
		return err
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
	return p.noting(ctx, record, func() error { return p.validating.Validate(ctx, shown, p.interfaces(ctx, a.t)) })
}

// allow runs all of admission, for writes that have no rules between the two halves.
func (p *Pipeline) allow(ctx context.Context, a admitted) error {
	if err := p.admit(ctx, a); err != nil {
		return err
	}
	return p.validate(ctx, a)
}

func (p *Pipeline) interfaces(ctx context.Context, t *Type) objectInterfaces {
	return objectInterfaces{t, ctx, p.registry}
}

// attributes describe the write to the plugins, who are shown the second. What they note is in the first; it may be the same. What the
// write is about and who asks for it is the context's to say.
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
	if name == "" && a.op == admission.Create {
		if m, err := meta.Accessor(a.obj); err == nil { // else a kind without metadata
			name = m.GetName() // each attempt at a generated name has its own
		}
	}
	if a.t.isNamespaces() {
		namespace = name
	}
	record = admission.NewAttributesRecord(a.obj, a.old, kind, namespace, name, gv.WithResource(resource), subresource, a.op, a.options, a.dryRun, who)
	if a.load != nil {
		return record, lazyAttributes{record, a.load}
	}
	return record, record
}

func (t *Type) isNamespaces() bool { return t.Resource == "namespaces" && t.Group == "" }

// objectInterfaces are what plugins may ask of a type, in the context of a request.
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

// admissionScheme is a scheme that has another convertor for what plugins are shown than for what clients are.
type admissionScheme interface {
	ForAdmission() runtime.ObjectConvertor
}

// The options that plugins see of a write that came without: those of a client that asked for nothing. They are shared,
// and not changed.
var (
	plainCreate = &metav1.CreateOptions{TypeMeta: optionsKind("CreateOptions")}
	plainUpdate = &metav1.UpdateOptions{TypeMeta: optionsKind("UpdateOptions")}
)

func optionsKind(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{Kind: kind, APIVersion: metav1.SchemeGroupVersion.String()}
}

// createOptionsOf are the options of the create that an update comes to when there is no object.
func createOptionsOf(o *metav1.UpdateOptions) *metav1.CreateOptions {
	return &metav1.CreateOptions{TypeMeta: optionsKind("CreateOptions"), DryRun: o.DryRun, FieldManager: o.FieldManager,
		FieldValidation: o.FieldValidation}
}
