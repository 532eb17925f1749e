package server

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/rowlock/rowlock/resources/upstream"
)

// accessMetrics are kube-apiserver's metrics of authentication and authorization (pkg/endpoints/filters of k8s.io/apiserver).
type accessMetrics struct {
	users, authentications, authorizations *prometheus.CounterVec
	authenticating, authorizing, filtering *prometheus.HistogramVec
	impersonation                          string // the label of that filter
	unfair                                 bool   // there is no priority and fairness
	// looked has the counters and histograms in use. They are looked up once, until a reset, and not for each request.
	looked atomic.Pointer[accessSeries]
}

// accessSeries are the counters and histograms of accessMetrics.
type accessSeries struct {
	users                                 map[string]prometheus.Counter
	known, unknown, invalid               outcome
	allowed, denied, noOpinion, undecided outcome
	filters                               filterTimes
}

// filterTimes are the durations of the filters before the handler. The labels are kube-apiserver's names of its filters. flow is nil without priority
// and fairness.
type filterTimes struct {
	authentication, audit, impersonation, flow, authorization prometheus.Observer
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

func newAccessMetrics(r *prometheus.Registry, impersonation string, unfair bool) (*accessMetrics, error) {
	m := &accessMetrics{impersonation: impersonation, unfair: unfair,
		users: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "authenticated_user_requests",
			Help: "Counter of authenticated requests broken out by username."}, []string{"username"}),
		authentications: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "authentication_attempts", Help: "Counter of authenticated attempts."},
			[]string{"result"}),
		authenticating: upstream.NewHistogramVec("authentication_duration_seconds",
			"Authentication duration in seconds broken out by result.",
			accessBuckets, "result"),
		authorizations: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "authorization_attempts_total",
			Help: "Counter of authorization attempts broken down by result. It can be either 'allowed', 'denied', 'no-opinion' or 'error'."}, []string{"result"}),
		authorizing: upstream.NewHistogramVec("authorization_duration_seconds",
			"Authorization duration in seconds broken out by result.",
			accessBuckets, "result"),
		filtering: upstream.NewHistogramVec("apiserver_request_filter_duration_seconds",
			"Request filter latency distribution in seconds, for each filter type",
			[]float64{0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 5, 10, 15, 30}, "filter"),
	}
	for _, c := range []prometheus.Collector{m.users, m.authentications, m.authenticating, m.authorizations, m.authorizing, m.filtering} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	m.look()
	return m, nil
}

// look looks the counters and histograms up.
func (m *accessMetrics) look() {
	filter := m.filtering.WithLabelValues
	filters := filterTimes{authentication: filter("authentication"), audit: filter("audit"), impersonation: filter(m.impersonation), authorization: filter("authorization")}
	if !m.unfair {
		filters.flow = filter("priorityandfairness")
	}
	authentication := func(result string) outcome {
		return outcome{m.authentications.WithLabelValues(result), m.authenticating.WithLabelValues(result), filters.authentication}
	}
	authorization := func(result string, filter prometheus.Observer) outcome {
		return outcome{m.authorizations.WithLabelValues(result), m.authorizing.WithLabelValues(result), filter}
	}
	s := &accessSeries{users: map[string]prometheus.Counter{}, filters: filters,
		known: authentication("success"), unknown: authentication("failure"), invalid: authentication("error"),
		allowed: authorization("allowed", filters.authorization), denied: authorization("denied", nil),
		noOpinion: authorization("no-opinion", nil), undecided: authorization("error", nil)}
	for _, name := range append(namedUsers, emailUsers, otherUsers) {
		s.users[name] = m.users.WithLabelValues(name)
	}
	m.looked.Store(s)
}

// reset resets all of them.
func (m *accessMetrics) reset() {
	for _, vec := range []interface{ Reset() }{m.users, m.authentications, m.authenticating, m.authorizations, m.authorizing, m.filtering} {
		vec.Reset()
	}
	m.look()
}

// series returns the counters and histograms in use.
func (m *accessMetrics) series() *accessSeries { return m.looked.Load() }

// namedUsers are counted by their names. All other users are counted together, to keep names out of the metrics.
var namedUsers = []string{"admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"}

const (
	emailUsers = "email_id"
	otherUsers = "other"
)

// authenticated counts an authenticated request, system:anonymous included.
func (m *accessMetrics) authenticated(username string, d time.Duration) {
	s := m.series()
	counter, named := s.users[username]
	switch {
	case strings.Contains(username, "@"):
		counter = s.users[emailUsers]
	case !named:
		counter = s.users[otherUsers]
	}
	counter.Inc()
	s.known.took(d)
}

// authorized counts a decision.
func (m *accessMetrics) authorized(decision authorizer.Decision, err error, d time.Duration) {
	s := m.series()
	switch {
	case decision == authorizer.DecisionAllow:
		s.allowed.took(d)
	case err != nil:
		s.undecided.took(d)
	case decision == authorizer.DecisionDeny:
		s.denied.took(d)
	default:
		s.noOpinion.took(d)
	}
}
