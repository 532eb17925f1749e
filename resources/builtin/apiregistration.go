package builtin

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"
	"k8s.io/kube-aggregator/pkg/registry/apiservice"

	"github.com/rowlock/rowlock/resources"
)

func apiregistrationGroup() resources.GroupSpec {
	v1 := schema.GroupVersion{Group: "apiregistration.k8s.io", Version: "v1"}
	// The type of upstream's constructor hides that its strategy also has the rules of deletion.
	s := apiservice.NewStrategy(Scheme).(strategy)
	return single(v1,
		define[apiregistration.APIService, apiregistration.APIServiceList](v1, "apiservices", s,
			in("api-extensions"), selectBy(apiservice.GetAttrs), statusWithoutTable(apiservice.NewStatusStrategy(Scheme)),
			table(func(schema.GroupResource) rest.TableConvertor { return apiServiceTable{} })),
	)
}

// apiServiceTable prints APIServices.
type apiServiceTable struct{}

// ConvertToTable makes a table of an APIService or a list of them.
func (apiServiceTable) ConvertToTable(_ context.Context, obj, _ runtime.Object) (*metav1.Table, error) {
	doc := metav1.ObjectMeta{}.SwaggerDoc()
	t := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: doc["name"]},
		{Name: "Service", Type: "string", Description: "The reference to the service that hosts this API endpoint."},
		{Name: "Available", Type: "string", Description: "Whether this service is available."},
		{Name: "Age", Type: "string", Description: doc["creationTimestamp"]},
	}}
	if l, err := meta.ListAccessor(obj); err == nil {
		t.ResourceVersion, t.Continue, t.RemainingItemCount = l.GetResourceVersion(), l.GetContinue(), l.GetRemainingItemCount()
	} else if m, err := meta.CommonAccessor(obj); err == nil {
		t.ResourceVersion = m.GetResourceVersion()
	}
	var err error
	t.Rows, err = metatable.MetaToTableRow(obj, func(obj runtime.Object, _ metav1.Object, name, age string) ([]any, error) {
		a := obj.(*apiregistration.APIService)
		service := "Local"
		if ref := a.Spec.Service; ref != nil {
			service = ref.Namespace + "/" + ref.Name
		}
		return []any{name, service, available(a), age}, nil
	})
	return t, err
}

// available is the cell with the state of the service behind an API.
func available(a *apiregistration.APIService) string {
	for _, c := range a.Status.Conditions {
		if c.Type != apiregistration.Available {
			continue
		}
		if c.Status != apiregistration.ConditionTrue && c.Reason != "" {
			return fmt.Sprintf("%s (%s)", c.Status, c.Reason)
		}
		return string(c.Status)
	}
	return string(apiregistration.ConditionUnknown)
}
