package custom

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fieldmanager"
)

// rule gives the type of definitions, so far upstream's, its rules: names and conditions are settled by the write of the definition itself,
// which also includes the dependent writes.
func (d *Definitions) rule(t *resources.Type) {
	manager := sync.OnceValues(func() (*fieldmanager.Manager, error) { return t.ServerManager("status") })
	s := &definitionStrategy{RESTCreateStrategy: t.CreateStrategy, update: t.UpdateStrategy, definitions: d, manager: manager}
	t.CreateStrategy, t.UpdateStrategy = s, s.ofUpdates()
	status := t.Subresources["status"]
	status.UpdateStrategy = definitionStatusStrategy{status.UpdateStrategy}
	t.Allocate, t.Repeats = d.allocate, &d.repeats
	t.Lean = &d.schemas
	t.Terminate, t.TerminatesPlainly = terminate, true
}

// definitionStrategy is upstream's strategy of definitions, and also settles names and conditions.
type definitionStrategy struct {
	rest.RESTCreateStrategy
	update      rest.RESTUpdateStrategy
	definitions *Definitions
	manager     func() (*fieldmanager.Manager, error)
}

// updateStrategy is its part for updates.
type updateStrategy struct {
	rest.RESTUpdateStrategy
	whole *definitionStrategy
}

func (s *definitionStrategy) ofUpdates() rest.RESTUpdateStrategy { return updateStrategy{s.update, s} }

// PrepareForCreate gives a new definition its status. In a dry run it has none, as in kube-apiserver, whose controllers only see what is stored:
// otherwise every "kubectl diff" would show it.
func (s *definitionStrategy) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	s.RESTCreateStrategy.PrepareForCreate(ctx, obj)
	if !resources.InDryRun(ctx) {
		s.settle(obj)
	}
}

// PrepareForUpdate gives a changed definition its status. In a dry run it keeps the present one.
func (s updateStrategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	s.RESTUpdateStrategy.PrepareForUpdate(ctx, obj, old)
	if !resources.InDryRun(ctx) {
		s.whole.settle(obj)
	}
}

// Validate is upstream's, on the definition as the client sent it: the accepted names repeat its names, so invalid ones would be reported
// twice.
func (s *definitionStrategy) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	shown := withNamesOf(obj, &apiextensions.CustomResourceDefinition{})
	crd, ok := shown.(*apiextensions.CustomResourceDefinition)
	if !ok {
		return s.RESTCreateStrategy.Validate(ctx, shown)
	}
	if isLean(crd) {
		return s.validateLean(ctx, crd)
	}
	return s.definitions.validated.validate(crd, nil, func(now, _ *apiextensions.CustomResourceDefinition) field.ErrorList {
		return s.RESTCreateStrategy.Validate(ctx, now)
	})
}

// ValidateUpdate is upstream's in the same way.
func (s updateStrategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	shown := withNamesOf(obj, old)
	now, ok := shown.(*apiextensions.CustomResourceDefinition)
	before, was := old.(*apiextensions.CustomResourceDefinition)
	if !ok || !was {
		return s.RESTUpdateStrategy.ValidateUpdate(ctx, shown, old)
	}
	if isLean(now) || isLean(before) {
		return s.validateLean(ctx, now, before)
	}
	return s.whole.definitions.validated.validate(now, before, func(now, before *apiextensions.CustomResourceDefinition) field.ErrorList {
		return s.RESTUpdateStrategy.ValidateUpdate(ctx, now, before)
	})
}

// withNamesOf is a definition with the accepted names of another one.
func withNamesOf(obj, other runtime.Object) runtime.Object {
	crd, ok := obj.(*apiextensions.CustomResourceDefinition)
	from, isToo := other.(*apiextensions.CustomResourceDefinition)
	if !ok || !isToo {
		return obj
	}
	shown := *crd
	shown.Status.AcceptedNames = from.Status.AcceptedNames
	return &shown
}

// definitionStatusStrategy is upstream's strategy of the status of definitions. The settled parts stay: kube-apiserver's controllers would
// write them again.
type definitionStatusStrategy struct{ rest.RESTUpdateStrategy }

// ValidateUpdate is upstream's, on the status as the client sent it, which is corrected afterwards: impossible names are refused.
func (s definitionStatusStrategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	errs := s.RESTUpdateStrategy.ValidateUpdate(ctx, obj, old)
	keepSettled(obj, old)
	return errs
}

// keepSettled keeps the names and the conditions that follow from them.
func keepSettled(obj, old runtime.Object) {
	now, ok := obj.(*apiextensions.CustomResourceDefinition)
	before, was := old.(*apiextensions.CustomResourceDefinition)
	if !ok || !was {
		return
	}
	now.Status.AcceptedNames = before.Status.AcceptedNames
	for _, typ := range []apiextensions.CustomResourceDefinitionConditionType{apiextensions.NamesAccepted, apiextensions.Established} {
		if c := apiextensions.FindCRDCondition(before, typ); c != nil {
			kept := *c
			apiextensions.RemoveCRDCondition(now, typ)
			now.Status.Conditions = append(now.Status.Conditions, kept)
		}
	}
	slices.SortStableFunc(now.Status.Conditions, func(a, b apiextensions.CustomResourceDefinitionCondition) int {
		place := func(c apiextensions.CustomResourceDefinitionCondition) int {
			return slices.IndexFunc(before.Status.Conditions, func(o apiextensions.CustomResourceDefinitionCondition) bool { return o.Type == c.Type })
		}
		return cmp.Compare(uint(place(a)), uint(place(b))) // new ones come last
	})
}

// settle writes the status. Its field manager is the server, as if a controller had written it through the subresource.
func (s *definitionStrategy) settle(obj runtime.Object) {
	crd, ok := obj.(*apiextensions.CustomResourceDefinition)
	if !ok {
		return
	}
	before := *crd.Status.DeepCopy()
	s.definitions.namesIn(crd.Spec.Group).accept(crd)
	approve(crd)
	structure(crd)
	if apiequality.Semantic.DeepEqual(before, crd.Status) {
		return
	}
	if m, err := s.manager(); err == nil {
		// Versions are owned as a whole and do not change here, so their schemas, which are long, make no difference.
		live, now := withoutSchemas(crd), withoutSchemas(crd)
		live.Status = before
		m.Update(live, now, resources.ServerManagerName)
		crd.ManagedFields = now.ManagedFields
	}
}

// terminate is the first phase of the deletion of a definition: it is marked, and stays until its objects have been removed.
func terminate(obj runtime.Object, now metav1.Time) bool {
	crd, ok := obj.(*apiextensions.CustomResourceDefinition)
	if !ok || crd.DeletionTimestamp != nil {
		return false
	}
	crd.DeletionTimestamp = &now
	if !apiextensions.CRDHasFinalizer(crd, apiextensions.CustomResourceCleanupFinalizer) {
		crd.Finalizers = append(crd.Finalizers, apiextensions.CustomResourceCleanupFinalizer)
	}
	setCondition(crd, apiextensions.Terminating, apiextensions.ConditionTrue, "InstanceDeletionPending",
		"CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon")
	return true
}

// refuseCreate refuses new objects of a definition that is being deleted. It names the object as admission does: by the path of the request, if that
// has a name.
func refuseCreate(ctx context.Context, name string) error {
	var of schema.GroupResource
	if info, ok := genericapirequest.RequestInfoFrom(ctx); ok {
		of, name = schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}, cmp.Or(info.Name, name)
	}
	return apierrors.NewForbidden(of, name, errors.New("create not allowed while custom resource definition is terminating"))
}
