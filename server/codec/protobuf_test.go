package codec_test

import (
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/server/codec"
)

// An object whose stored version is not the storage version is rendered in the requested version.
func TestMessageOfAnotherStoredVersion(t *testing.T) {
	r := resources.NewRegistry()
	r.SetGroups(builtin.Groups())
	gvr := schema.GroupVersionResource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"}
	s := served(t, r.Catalog(), gvr)
	o := resources.LoadObject(s.KeyOf("default", "h"), 7, []byte(`{"kind":"HorizontalPodAutoscaler","apiVersion":"autoscaling/v1",`+
		`"metadata":{"name":"h","namespace":"default","resourceVersion":"7"},`+
		`"spec":{"scaleTargetRef":{"kind":"Deployment","name":"d","apiVersion":"apps/v1"},"maxReplicas":3,"targetCPUUtilizationPercentage":50}}`), nil, nil)
	data, err := codec.NewRenderer(s, codec.Format{Media: codec.Protobuf}).Object(o)
	if err != nil {
		t.Fatal(err)
	}
	obj, _, err := protobuf.NewSerializer(s.Scheme, s.Scheme).Decode(data, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	metrics := obj.(*autoscalingv2.HorizontalPodAutoscaler).Spec.Metrics
	if len(metrics) != 1 || metrics[0].Resource == nil || *metrics[0].Resource.Target.AverageUtilization != 50 {
		t.Errorf("its metrics are %v", metrics)
	}
}

func served(t *testing.T, catalog *resources.Catalog, gvr schema.GroupVersionResource) *resources.Served {
	t.Helper()
	for _, g := range catalog.Groups() {
		for _, v := range g.Versions {
			for _, s := range v.Resources {
				if s.GroupVersion() == gvr.GroupVersion() && s.Resource == gvr.Resource {
					return s
				}
			}
		}
	}
	t.Fatalf("%s is not served", gvr)
	return nil
}
