package server

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/rowlock/rowlock/resources/upstream"
)

// accessMetrics are kube-apiserver's metrics of authentication and authorization (pkg/endpoints/filters of k8s.io/apiserver). The counters and
// histograms are looked up once and not for each request.
type accessMetrics struct {
	users                                 map[string]prometheus.Counter
	known, unknown, invalid               outcome
	allowed, denied, noOpinion, undecided outcome
	filters                               filterTimes
}

// filterTimes are the durations of the filters before the handler. The labels are kube-apiserver's names of its filters.
type filterTimes struct {
	authentication, audit, impersonation, flow, authorization prometheus.Observer
}

func newFilterTimes(r *prometheus.Registry, impersonation string) (filterTimes, error) {
	vec := upstream.NewHistogramVec("apiserver_request_filter_duration_seconds",
		"Request filter latency distribution in seconds, for each filter type",
		[]float64{0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 5, 10, 15, 30}, "filter")
	of := func(filter string) prometheus.Observer { return vec.WithLabelValues(filter) }
	return filterTimes{of("authentication"), of("audit"), of(impersonation), of("priorityandfairness"), of("authorization")}, r.Register(vec)
}

// outcome has the metrics of one result: the number of attempts, their duration, and their duration as a filter of requests. filter is nil for
// results that end a request, which kube-apiserver does not count as a filter's.
type outcome struct {
	attempts        prometheus.Counter
	seconds, filter prometheus.Observer
}

func (o outcome) took(d time.Duration) {
	o.attempts.Inc()
	o.seconds.Observe(d.Seconds())
	if o.filter != nil {
		o.filter.Observe(d.Seconds())
	}
}

// accessBuckets are kube-apiserver's, in seconds.
var accessBuckets = prometheus.ExponentialBuckets(0.001, 2, 15)

func newAccessMetrics(r *prometheus.Registry, impersonation string) (*accessMetrics, error) {
	filters, err := newFilterTimes(r, impersonation)
	if err != nil {
		return nil, err
	}
	users := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "authenticated_user_requests",
		Help: "Counter of authenticated requests broken out by username."}, []string{"username"})
	authentications := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "authentication_attempts", Help: "Counter of authenticated attempts."},
		[]string{"result"})
	authenticating := upstream.NewHistogramVec("authentication_duration_seconds",
		"Authentication duration in seconds broken out by result.",
		accessBuckets, "result")
	authorizations := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "authorization_attempts_total",
		Help: "Counter of authorization attempts broken down by result. It can be either 'allowed', 'denied', 'no-opinion' or 'error'."}, []string{"result"})
	authorizing := upstream.NewHistogramVec("authorization_duration_seconds",
		"Authorization duration in seconds broken out by result.",
		accessBuckets, "result")
	for _, c := range []prometheus.Collector{users, authentications, authenticating, authorizations, authorizing} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	authentication := func(result string) outcome {
		return outcome{authentications.WithLabelValues(result), authenticating.WithLabelValues(result), filters.authentication}
	}
	authorization := func(result string, filter prometheus.Observer) outcome {
		return outcome{authorizations.WithLabelValues(result), authorizing.WithLabelValues(result), filter}
	}
	m := &accessMetrics{users: map[string]prometheus.Counter{}, filters: filters,
		known: authentication("success"), unknown: authentication("failure"), invalid: authentication("error"),
		allowed: authorization("allowed", filters.authorization), denied: authorization("denied", nil),
		noOpinion: authorization("no-opinion", nil), undecided: authorization("error", nil)}
	for _, name := range append(namedUsers, emailUsers, otherUsers) {
		m.users[name] = users.WithLabelValues(name)
	}
	return m, nil
}

// namedUsers are counted by their names. All other users are counted together, to keep names out of the metrics.
var namedUsers = []string{"admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"}

const (
	emailUsers = "email_id"
	otherUsers = "other"
)

// authenticated counts an authenticated request, system:anonymous included.
func (m *accessMetrics) authenticated(username string, d time.Duration) {
	counter, named := m.users[username]
	switch {
	case strings.Contains(username, "@"):
		counter = m.users[emailUsers]
	case !named:
		counter = m.users[otherUsers]
	}
	counter.Inc()
	m.known.took(d)
}

// authorized counts a decision.
func (m *accessMetrics) authorized(decision authorizer.Decision, err error, d time.Duration) {
	switch {
	case decision == authorizer.DecisionAllow:
		m.allowed.took(d)
	case err != nil:
		m.undecided.took(d)
	case decision == authorizer.DecisionDeny:
		m.denied.took(d)
	default:
		m.noOpinion.took(d)
	}
}
