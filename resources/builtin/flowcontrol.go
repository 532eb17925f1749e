package builtin

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/apis/flowcontrol"
	"k8s.io/kubernetes/pkg/registry/flowcontrol/flowschema"
	"k8s.io/kubernetes/pkg/registry/flowcontrol/prioritylevelconfiguration"

	"github.com/rowlock/rowlock/resources"
)

func flowcontrolGroup() resources.GroupSpec {
	v1 := schema.GroupVersion{Group: "flowcontrol.apiserver.k8s.io", Version: "v1"}
	return single(v1, 16100, 21,
		define[flowcontrol.FlowSchema, flowcontrol.FlowSchemaList](v1, "flowschemas", flowschema.Strategy,
			status(flowschema.StatusStrategy)),
		define[flowcontrol.PriorityLevelConfiguration, flowcontrol.PriorityLevelConfigurationList](v1, "prioritylevelconfigurations",
			prioritylevelconfiguration.Strategy, status(prioritylevelconfiguration.StatusStrategy)),
	)
}
