package upstream_test

import (
	"slices"
	"testing"

	base "k8s.io/component-base/metrics"

	"github.com/rowlock/rowlock/resources/upstream"
)

// LimitMetrics limits upstream's metrics: by name, by label values, and with hidden ones or without them.
func TestUpstreamIsLimited(t *testing.T) {
	if base.ShouldShowHidden() {
		t.Skip("a run before has shown what is hidden, which nothing undoes")
	}
	counter := func(name, deprecated string) *base.CounterVec {
		return base.NewCounterVec(&base.CounterOpts{Name: name, DeprecatedVersion: deprecated}, []string{"of"})
	}
	off, limited, hidden := counter("limited_off_total", ""), counter("limited_labels_total", ""), counter("limited_hidden_total", "0.0.0")
	registry := base.NewKubeRegistry()
	registry.MustRegister(hidden)
	if hidden.IsCreated() || !hidden.IsHidden() {
		t.Fatal("upstream does not hide what it deprecated")
	}
	upstream.LimitMetrics(nil, nil, false)
	if base.ShouldShowHidden() {
		t.Error("shown is what nobody asked for")
	}
	upstream.LimitMetrics([]string{"limited_off_total"}, map[string]string{"limited_labels_total,of": "a,b"}, true)
	registry.MustRegister(off, limited)
	for _, c := range []*base.CounterVec{off, limited, hidden} {
		for _, value := range []string{"a", "b", "c", "d"} {
			c.WithLabelValues(value).Inc()
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string][]string{}
	for _, f := range families {
		for _, m := range f.Metric {
			values[f.GetName()] = append(values[f.GetName()], m.Label[0].GetValue())
		}
	}
	for name, want := range map[string][]string{"limited_off_total": nil, "limited_labels_total": {"a", "b", "unexpected"},
		"limited_hidden_total": {"a", "b", "c", "d"}} {
		if !slices.Equal(values[name], want) {
			t.Errorf("%s has %q, want %q", name, values[name], want)
		}
	}
}
