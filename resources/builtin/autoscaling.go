package builtin

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/apis/autoscaling"
	"k8s.io/kubernetes/pkg/registry/autoscaling/horizontalpodautoscaler"

	"github.com/rowlock/rowlock/resources"
)

func autoscalingGroup() resources.GroupSpec {
	hpa := define[autoscaling.HorizontalPodAutoscaler, autoscaling.HorizontalPodAutoscalerList](
		schema.GroupVersion{Group: "autoscaling", Version: "v2"}, "horizontalpodautoscalers", horizontalpodautoscaler.Strategy,
		short("hpa"), in("all"), status(horizontalpodautoscaler.StatusStrategy))
	return resources.GroupSpec{Name: "autoscaling", Priority: 17500, Versions: []resources.VersionSpec{
		{Version: "v2", Priority: 30, Types: []*resources.Type{hpa}},
		{Version: "v1", Priority: 15, Types: []*resources.Type{hpa}},
	}}
}
