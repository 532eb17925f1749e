package server

import (
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
)

// MetricLimits hides metrics and values of labels (--disabled-metrics, --allow-metric-labels of kube-apiserver).
type MetricLimits struct {
	// Disabled are the names of hidden metrics.
	Disabled []string
	// Labels are the allowed values, separated by commas, by metric and label, which are separated by a comma.
	Labels map[string]string
	// Hidden shows the metrics that kube-apiserver of this version hides, as it is about to lose them.
	Hidden bool
}

// unexpected is upstream's replacement for other values of a label, and unexpectedTotal counts the replacements.
const (
	unexpected      = "unexpected"
	unexpectedTotal = "cardinality_enforcement_unexpected_categorizations_total"
)

// limited applies the limits to metrics. Upstream's packages apply them to their own metrics, if configured in time.
func (l MetricLimits) limited(all prometheus.Gatherer) prometheus.Gatherer {
	if len(l.Disabled) == 0 && len(l.Labels) == 0 {
		return all
	}
	allowed := map[string]map[string][]string{} // by metric and label
	for key, values := range l.Labels {
		metric, label, _ := strings.Cut(key, ",")
		if allowed[metric] == nil {
			allowed[metric] = map[string][]string{}
		}
		allowed[metric][label] = strings.Split(values, ",")
	}
	var mu sync.Mutex
	most := 0.0 // the most replacements so far: a counter must not decrease when series go, as those of a definition do
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := all.Gather()
		families = slices.DeleteFunc(families, func(f *dto.MetricFamily) bool { return slices.Contains(l.Disabled, f.GetName()) })
		replaced := 0.0
		for _, f := range families {
			if labels := allowed[f.GetName()]; labels != nil {
				replaced += constrain(f, labels)
			}
		}
		mu.Lock()
		most = max(most, replaced)
		replaced = most
		mu.Unlock()
		for _, f := range families {
			if f.GetName() == unexpectedTotal {
				f.Metric[0].Counter.Value = proto.Float64(f.Metric[0].GetCounter().GetValue() + replaced)
			}
		}
		return families, err
	})
}

// constrain replaces values of labels, joins the series that become equal, and returns how often one of the replaced values was counted.
func constrain(f *dto.MetricFamily, allowed map[string][]string) (replaced float64) {
	left, byLabels := f.Metric[:0], map[string]*dto.Metric{}
	for _, m := range f.Metric {
		m.Label = slices.Clone(m.Label) // a copy, because the metric owns the slice
		var key strings.Builder
		for i, l := range m.Label {
			if values, ok := allowed[l.GetName()]; ok && !slices.Contains(values, l.GetValue()) && l.GetValue() != unexpected {
				m.Label[i] = &dto.LabelPair{Name: l.Name, Value: proto.String(unexpected)}
				replaced += times(m)
			}
			key.WriteString(m.Label[i].GetValue() + "\xff")
		}
		if same := byLabels[key.String()]; same != nil {
			join(same, m)
			continue
		}
		byLabels[key.String()] = m
		left = append(left, m)
	}
	f.Metric = left
	return replaced
}

// times is how often a series was incremented.
func times(m *dto.Metric) float64 {
	if m.Histogram != nil {
		return float64(m.Histogram.GetSampleCount())
	}
	return m.GetCounter().GetValue() + float64(m.GetSummary().GetSampleCount())
}

// join adds a series to another one. It keeps the buckets that all histograms have. Native buckets are not among them: a joined series has only
// kube-apiserver's classic buckets.
func join(to, m *dto.Metric) {
	switch {
	case to.Counter != nil:
		to.Counter.Value = proto.Float64(to.Counter.GetValue() + m.GetCounter().GetValue())
	case to.Gauge != nil:
		to.Gauge.Value = proto.Float64(to.Gauge.GetValue() + m.GetGauge().GetValue())
	case to.Summary != nil:
		to.Summary = &dto.Summary{SampleCount: proto.Uint64(to.Summary.GetSampleCount() + m.GetSummary().GetSampleCount()),
			SampleSum: proto.Float64(to.Summary.GetSampleSum() + m.GetSummary().GetSampleSum())}
	case to.Histogram != nil:
		h := &dto.Histogram{SampleCount: proto.Uint64(to.Histogram.GetSampleCount() + m.GetHistogram().GetSampleCount()),
			SampleSum: proto.Float64(to.Histogram.GetSampleSum() + m.GetHistogram().GetSampleSum())}
		for i, b := range to.Histogram.Bucket {
			if i < len(m.GetHistogram().GetBucket()) {
				count := b.GetCumulativeCount() + m.Histogram.Bucket[i].GetCumulativeCount()
				h.Bucket = append(h.Bucket, &dto.Bucket{UpperBound: b.UpperBound, CumulativeCount: proto.Uint64(count)})
			}
		}
		to.Histogram = h
	}
}
