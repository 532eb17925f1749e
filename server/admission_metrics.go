package server

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/admission"
)

// admissionTimes are the histograms of how long admission takes: kube-apiserver's metrics of the two steps and of each plugin. The summary of the
// steps is missing: it costs more than many plugins do.
type admissionTimes struct {
	steps, plugins *prometheus.HistogramVec
	all            []*timed
}

func newAdmissionTimes(r *prometheus.Registry) (*admissionTimes, error) {
	buckets := []float64{0.005, 0.025, 0.1, 0.5, 1, 2.5}
	t := &admissionTimes{
		steps: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "apiserver_admission_step_admission_duration_seconds",
			Help:    "[STABLE] Admission sub-step latency histogram in seconds, broken out for each operation and API resource and step type (validate or admit).",
			Buckets: buckets}, []string{"type", "operation", "rejected"}),
		plugins: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "apiserver_admission_controller_admission_duration_seconds",
			Help: "[STABLE] Admission controller latency histogram in seconds, identified by name and broken out for each operation and API resource " +
				"and type (validate or admit).",
			Buckets: buckets}, []string{"name", "type", "operation", "rejected"})}
	if err := r.Register(t.steps); err != nil {
		return t, err
	}
	return t, r.Register(t.plugins)
}

// chain wraps all plugins and measures the time that they take together.
func (t *admissionTimes) chain(plugins admission.Interface) admission.Interface {
	return t.timed(plugins, t.steps)
}

// plugin wraps one plugin and measures the time that it takes.
func (t *admissionTimes) plugin(plugin admission.Interface, name string) admission.Interface {
	return t.timed(plugin, t.plugins.MustCurryWith(prometheus.Labels{"name": name}).(*prometheus.HistogramVec))
}

// timed is a plugin, or the whole chain, whose time is measured.
type timed struct {
	admission.Interface // the same value as mutating and validating
	mutating            admission.MutationInterface
	validating          admission.ValidationInterface
	times               *prometheus.HistogramVec
	seen                atomic.Pointer[[2]observers] // by Admit, by Validate; since the last reset
}

// observers caches the histograms in use, by operation and rejection: a lookup by labels takes longer than most plugins do.
type observers [4][2]atomic.Pointer[prometheus.Observer]

// timed wraps a plugin, or all. It is for the start of the server.
func (t *admissionTimes) timed(plugin admission.Interface, times *prometheus.HistogramVec) *timed {
	w := &timed{Interface: plugin, times: times}
	w.mutating, _ = plugin.(admission.MutationInterface)
	w.validating, _ = plugin.(admission.ValidationInterface)
	w.seen.Store(&[2]observers{})
	t.all = append(t.all, w)
	return w
}

// reset removes all series.
func (t *admissionTimes) reset() {
	t.steps.Reset()
	t.plugins.Reset()
	for _, w := range t.all {
		w.seen.Store(&[2]observers{})
	}
}

// Admit implements admission.MutationInterface.
func (t *timed) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if t.mutating == nil {
		return nil
	}
	began := time.Now()
	err := t.mutating.Admit(ctx, a, o)
	t.count(&t.seen.Load()[0], began, a, "admit", err)
	return err
}

// Validate implements admission.ValidationInterface.
func (t *timed) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if t.validating == nil {
		return nil
	}
	began := time.Now()
	err := t.validating.Validate(ctx, a, o)
	t.count(&t.seen.Load()[1], began, a, "validate", err)
	return err
}

func (t *timed) count(to *observers, began time.Time, a admission.Attributes, step string, err error) {
	took := time.Since(began).Seconds()
	operation := 0
	switch a.GetOperation() {
	case admission.Update:
		operation = 1
	case admission.Delete:
		operation = 2
	case admission.Connect:
		operation = 3
	}
	refused := 0
	if err != nil {
		refused = 1
	}
	of := to[operation][refused].Load()
	if of == nil {
		found := t.times.WithLabelValues(step, string(a.GetOperation()), strconv.FormatBool(err != nil))
		of = &found
		to[operation][refused].Store(of)
	}
	(*of).Observe(took)
}
