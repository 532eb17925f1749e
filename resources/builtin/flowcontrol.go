package builtin

import (
	"cmp"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/apis/flowcontrol"
	"k8s.io/kubernetes/pkg/registry/flowcontrol/flowschema"
	"k8s.io/kubernetes/pkg/registry/flowcontrol/prioritylevelconfiguration"

	"github.com/rowlock/rowlock/resources"
)

func flowcontrolGroup() resources.GroupSpec {
	v1 := schema.GroupVersion{Group: "flowcontrol.apiserver.k8s.io", Version: "v1"}
	return single(v1,
		define[flowcontrol.FlowSchema, flowcontrol.FlowSchemaList](v1, "flowschemas", flowschema.Strategy,
			status(flowschema.StatusStrategy), tableOrder(byPrecedence)),
		define[flowcontrol.PriorityLevelConfiguration, flowcontrol.PriorityLevelConfigurationList](v1, "prioritylevelconfigurations",
			prioritylevelconfiguration.Strategy, status(prioritylevelconfiguration.StatusStrategy)),
	)
}

// byPrecedence orders FlowSchemas as requests are matched with them, the first on top. Equals stay in the order of lists, by name.
func byPrecedence(a, b *resources.Object) int {
	precedence := func(o *resources.Object) int64 { return gjson.GetBytes(o.Data, "spec.matchingPrecedence").Int() }
	return cmp.Compare(precedence(a), precedence(b))
}
