package custom

import (
	"context"
	"sync"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/apis/autoscaling"
	autoscalingconversion "k8s.io/kubernetes/pkg/apis/autoscaling/v1"
)

// creation is the JSONPath of an object's creation time.
const creation = ".metadata.creationTimestamp"

// ageColumn is the column of definitions that define none.
func ageColumn() apiextensionsv1.CustomResourceColumnDefinition {
	return apiextensionsv1.CustomResourceColumnDefinition{Name: "Age", Type: "date", JSONPath: creation,
		Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]}
}

// table makes the columns of a version. timed: other cells than the usual Age column change with the clock.
func table(v *apiextensionsv1.CustomResourceDefinitionVersion) (t rest.TableConvertor, timed bool) {
	columns := v.AdditionalPrinterColumns
	if len(columns) == 0 {
		columns = []apiextensionsv1.CustomResourceColumnDefinition{ageColumn()}
	}
	ages := 0
	for _, c := range columns {
		switch {
		case c.Type == "date" && c.Name == "Age" && c.JSONPath == creation:
			ages++
		case c.Type == "date", c.Name == "Age":
			timed = true
		}
	}
	return &columnTable{columns: columns}, timed || ages > 1
}

// columnTable makes Tables of columns, whose paths are parsed on first use.
type columnTable struct {
	columns []apiextensionsv1.CustomResourceColumnDefinition
	once    sync.Once
	made    rest.TableConvertor
}

// ConvertToTable implements rest.TableConvertor.
func (t *columnTable) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	t.once.Do(func() {
		t.made, _ = tableconvertor.New(t.columns) // columns with invalid paths are left out, as in kube-apiserver
	})
	return t.made.ConvertToTable(ctx, obj, options)
}

// scaleTable makes the columns of the subresource scale.
func scaleTable(scale *apiextensionsv1.CustomResourceSubresourceScale) rest.TableConvertor {
	var columns []apiextensionsv1.CustomResourceColumnDefinition
	if scale.SpecReplicasPath != "" {
		columns = append(columns, apiextensionsv1.CustomResourceColumnDefinition{Name: "Desired", Type: "integer",
			Description: "Number of desired replicas", JSONPath: ".spec.replicas"})
	}
	if scale.StatusReplicasPath != "" {
		columns = append(columns, apiextensionsv1.CustomResourceColumnDefinition{Name: "Available", Type: "integer",
			Description: "Number of actual replicas", JSONPath: ".status.replicas"})
	}
	return versionedTable{&columnTable{columns: append(columns, ageColumn())}}
}

// versionedTable makes rows of Scales in the version that clients see.
type versionedTable struct{ rest.TableConvertor }

// ConvertToTable implements rest.TableConvertor.
func (t versionedTable) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	if s, ok := obj.(*autoscaling.Scale); ok {
		versioned := &autoscalingv1.Scale{}
		if err := autoscalingconversion.Convert_autoscaling_Scale_To_v1_Scale(s, versioned, nil); err != nil {
			return nil, err
		}
		obj = versioned
	}
	return t.TableConvertor.ConvertToTable(ctx, obj, options)
}
