package upstream_test

import (
	"context"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/token/cache"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/component-base/metrics/testutil"

	"github.com/rowlock/rowlock/resources/upstream"
)

// Upstream's caches of tokens count with the metrics that TokenCache returns.
func TestTokenCache(t *testing.T) {
	m := upstream.TokenCache()
	tokens := cache.New(authenticator.TokenFunc(func(context.Context, string) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: &user.DefaultInfo{}}, true, nil
	}), false, time.Hour, 0)
	for range 3 {
		if _, ok, err := tokens.AuthenticateToken(t.Context(), "a"); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	for name, c := range map[string]struct {
		got  func() (float64, error)
		want float64
	}{
		"hits":    {func() (float64, error) { return testutil.GetCounterMetricValue(m.Requests.WithLabelValues("hit")) }, 2},
		"misses":  {func() (float64, error) { return testutil.GetCounterMetricValue(m.Requests.WithLabelValues("miss")) }, 1},
		"fetches": {func() (float64, error) { return testutil.GetCounterMetricValue(m.Fetches.WithLabelValues("ok")) }, 1},
		"seconds": {func() (float64, error) {
			n, err := testutil.GetHistogramMetricCount(m.Seconds.WithLabelValues("hit"))
			return float64(n), err
		}, 2},
		"fetching": {func() (float64, error) { return testutil.GetGaugeMetricValue(m.Fetching.WithLabelValues("in_flight")) }, 0},
	} {
		if got, err := c.got(); err != nil || got != c.want {
			t.Errorf("%s: %v %v, not %v", name, got, err, c.want)
		}
	}
}
