package resources

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
)

// mostErrors is the greatest number of validation errors in an answer. Upstream joins their texts in quadratic time: the errors of a
// body of 3 MiB would take minutes and hundreds of megabytes, even after the client has got a timeout.
const mostErrors = 1000

// atMost cuts a list of errors at mostErrors and says so in its last error.
func atMost(errs field.ErrorList) field.ErrorList {
	if len(errs) <= mostErrors {
		return errs
	}
	more := &field.Error{Type: field.ErrorTypeInternal, Field: "...", Detail: fmt.Sprintf("%d more errors are not shown", len(errs)-mostErrors)}
	return append(errs[:mostErrors:mostErrors], more)
}

// briefly validates as a strategy does, and bounds the number of errors. Upstream runs declarative validation last and passes it all
// errors found before, of the object and of its metadata.
type briefly struct{ strategy any }

func (b briefly) ValidateDeclaratively(ctx context.Context, obj, old runtime.Object, errs field.ErrorList, op operation.Type,
	config rest.DeclarativeValidationConfig,
) field.ErrorList {
	s, ok := b.strategy.(rest.DeclarativeValidationStrategy)
	switch {
	case !ok, len(errs) == 0 && (declared{s, obj, old, op, config}).valid(ctx):
	case len(errs) <= mostErrors:
		errs = s.ValidateDeclaratively(ctx, obj, old, errs, op, config)
	}
	return atMost(errs)
}

func (b briefly) DeclarativeValidationConfig(ctx context.Context, obj, old runtime.Object) (none rest.DeclarativeValidationConfig) {
	if s, ok := b.strategy.(rest.DeclarativeValidationStrategy); ok {
		return s.DeclarativeValidationConfig(ctx, obj, old)
	}
	return none
}

type createBriefly struct {
	rest.RESTCreateStrategy
	briefly
	show func()
}

// Validate restores the managedFields if there are errors: these may quote the object.
func (b createBriefly) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	errs := b.RESTCreateStrategy.Validate(ctx, obj)
	if len(errs) > 0 {
		b.show()
	}
	return errs
}

type updateBriefly struct {
	rest.RESTUpdateStrategy
	briefly
	show func()
}

// ValidateUpdate restores the managedFields if there are errors: these may quote the object.
func (b updateBriefly) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	errs := b.RESTUpdateStrategy.ValidateUpdate(ctx, obj, old)
	if len(errs) > 0 {
		b.show()
	}
	return errs
}

// beforeCreate applies the rules of a create. It returns a bounded number of errors.
func beforeCreate(ctx context.Context, s rest.RESTCreateStrategy, obj runtime.Object) error {
	return withoutOwners(func(show func()) error { return rest.BeforeCreate(createBriefly{s, briefly{s}, show}, ctx, obj) }, obj)
}

// beforeUpdate applies the rules of an update. It returns a bounded number of errors.
func beforeUpdate(ctx context.Context, s rest.RESTUpdateStrategy, obj, old runtime.Object) error {
	return withoutOwners(func(show func()) error { return rest.BeforeUpdate(updateBriefly{s, briefly{s}, show}, ctx, obj, old) }, obj, old)
}
