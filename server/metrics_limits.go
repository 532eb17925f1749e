package server

import (
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
)

// MetricLimits say what of the metrics is not to be seen (--disabled-metrics, --allow-metric-labels of kube-apiserver).
type MetricLimits struct {
	// Disabled are the names of metrics that are not shown.
	Disabled []string
	// Labels are the values that are told apart, with commas between them, by the metric and the label with a comma between them.
	Labels map[string]string
}

// unexpected is upstream's value for all that are not to be told apart, and unexpectedTotal counts how often it took the place of one.
const (
	unexpected      = "unexpected"
	unexpectedTotal = "cardinality_enforcement_unexpected_categorizations_total"
)

// limited is what is left of metrics. What upstream's packages count is limited by them already, where they were asked to in time.
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
	most := 0.0 // what was replaced: series that go, as those of a definition do, take nothing from a counter
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

// constrain joins the series of a metric that are not to be told apart, and returns how often one of their values was counted.
func constrain(f *dto.MetricFamily, allowed map[string][]string) (replaced float64) {
	left, byLabels := f.Metric[:0], map[string]*dto.Metric{}
	for _, m := range f.Metric {
		m.Label = slices.Clone(m.Label) // which the metric itself has
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

// times is how often something was counted.
func times(m *dto.Metric) float64 {
	if m.Histogram != nil {
		return float64(m.Histogram.GetSampleCount())
	}
	return m.GetCounter().GetValue() + float64(m.GetSummary().GetSampleCount())
}

// join adds a series to another one. Of histograms the buckets are left that all have, of which those of native histograms are none: a joined
// series has those of kube-apiserver alone.
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
