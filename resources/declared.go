package resources

import (
	"context"
	"reflect"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// declared is an object for declarative validation by the tags of its Go type (KEP-5073), and the object before an update.
type declared struct {
	strategy rest.DeclarativeValidationStrategy
	obj, old runtime.Object
	op       operation.Type
	config   rest.DeclarativeValidationConfig
}

// valid reports whether declarative validation finds no error. Upstream deep-copies both objects before it converts them, and names
// the metric of a failure beforehand; here they are converted as for encoding, without a copy. It also returns false for objects that
// only upstream can judge.
func (d declared) valid(ctx context.Context) (ok bool) {
	if !fastpath.Declared.On() {
		return false
	}
	defer func() {
		if recover() != nil {
			ok = false // upstream returns an error for a panic
		}
		if !ok {
			fastpath.Declared.Fallback()
		}
	}()
	scheme, info := d.scheme(), (*genericapirequest.RequestInfo)(nil)
	if i, found := genericapirequest.RequestInfoFrom(ctx); found {
		info = i
	}
	if scheme == nil || info == nil || d.config.SubresourceGVKMapper != nil || strings.Contains(info.Subresource, "/") {
		return false
	}
	var subresources []string
	if info.Subresource != "" {
		subresources = []string{info.Subresource}
	}
	gv := schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
	obj, err := scheme.UnsafeConvertToVersion(d.obj, gv)
	if err != nil {
		return false
	}
	switch d.op {
	case operation.Create:
		return len(scheme.Validate(ctx, d.config.Options, obj, subresources...)) == 0
	case operation.Update:
		old, err := scheme.UnsafeConvertToVersion(d.old, gv)
		return err == nil && len(scheme.ValidateUpdate(ctx, d.config.Options, obj, old, subresources...)) == 0
	}
	return false
}

// scheme is the scheme of the rest.DeclarativeValidation that a strategy embeds; nil if the strategy embeds none and validates in its
// own way.
func (d declared) scheme() *runtime.Scheme {
	v := reflect.ValueOf(d.strategy)
	if v.Kind() != reflect.Struct {
		return nil
	}
	at, known := declarations.Load(v.Type())
	if !known {
		at = []int(nil)
		if f, found := v.Type().FieldByName(declarationType.Name()); found && f.Anonymous && f.Type == declarationType {
			at = f.Index
		}
		declarations.Store(v.Type(), at)
	}
	if at.([]int) == nil {
		return nil
	}
	return v.FieldByIndex(at.([]int)).Interface().(rest.DeclarativeValidation).Scheme
}

var declarationType = reflect.TypeFor[rest.DeclarativeValidation]()

// declarations maps each type of strategies to the index of its rest.DeclarativeValidation. Its size is bounded by the types in the
// program.
var declarations sync.Map
