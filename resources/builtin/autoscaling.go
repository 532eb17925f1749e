package builtin

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/apis/autoscaling"
	"k8s.io/kubernetes/pkg/registry/autoscaling/horizontalpodautoscaler"

	"github.com/rowlock/rowlock/resources"
)

func autoscalingGroup() resources.GroupSpec {
	v2, v1 := schema.GroupVersion{Group: "autoscaling", Version: "v2"}, schema.GroupVersion{Group: "autoscaling", Version: "v1"}
	hpa := define[autoscaling.HorizontalPodAutoscaler, autoscaling.HorizontalPodAutoscalerList](v2, "horizontalpodautoscalers",
		horizontalpodautoscaler.Strategy, short("hpa"), in("all"), status(horizontalpodautoscaler.StatusStrategy))
	group := single(v2, hpa)
	group.Versions = append(group.Versions, version(v1, hpa))
	return group
}
