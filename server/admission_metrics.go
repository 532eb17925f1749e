package server

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/admission"
)

// admissionSteps are the plugins, with the time that they take together: kube-apiserver's metric of the two steps, but for its summary, which
// costs more than many a plugin does.
type admissionSteps struct {
	admission.Interface // both of the next
	mutating            admission.MutationInterface
	validating          admission.ValidationInterface
	times               *prometheus.HistogramVec
}

func newAdmissionSteps(plugins admission.Interface, r *prometheus.Registry) (admission.Interface, error) {
	s := &admissionSteps{Interface: plugins, times: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "apiserver_admission_step_admission_duration_seconds",
		Help:    "[STABLE] Admission sub-step latency histogram in seconds, broken out for each operation and API resource and step type (validate or admit).",
		Buckets: []float64{0.005, 0.025, 0.1, 0.5, 1, 2.5}}, []string{"operation", "rejected", "type"})}
	s.mutating, _ = plugins.(admission.MutationInterface)
	s.validating, _ = plugins.(admission.ValidationInterface)
	return s, r.Register(s.times)
}

// Admit implements admission.MutationInterface.
func (s *admissionSteps) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if s.mutating == nil {
		return nil
	}
	began := time.Now()
	err := s.mutating.Admit(ctx, a, o)
	s.count(began, a, "admit", err)
	return err
}

// Validate implements admission.ValidationInterface.
func (s *admissionSteps) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if s.validating == nil {
		return nil
	}
	began := time.Now()
	err := s.validating.Validate(ctx, a, o)
	s.count(began, a, "validate", err)
	return err
}

func (s *admissionSteps) count(began time.Time, a admission.Attributes, step string, err error) {
	s.times.WithLabelValues(string(a.GetOperation()), strconv.FormatBool(err != nil), step).Observe(time.Since(began).Seconds())
}
