package server

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// idlePlugin handles every request and does nothing.
type idlePlugin struct{ *admission.Handler }

func (idlePlugin) Admit(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	return nil
}

// BenchmarkAdmissionTimes measures the cost of timing one plugin.
func BenchmarkAdmissionTimes(b *testing.B) {
	times, err := newAdmissionTimes(prometheus.NewRegistry())
	if err != nil {
		b.Fatal(err)
	}
	plugin := times.plugin(idlePlugin{admission.NewHandler(admission.Create)}, "Idle").(admission.MutationInterface)
	a := admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "", "", schema.GroupVersionResource{}, "", admission.Create, nil, false, nil)
	for b.Loop() {
		_ = plugin.Admit(b.Context(), a, nil)
	}
}
