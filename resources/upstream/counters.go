package upstream

import (
	"sync"

	proxies "k8s.io/apiserver/pkg/util/proxy/metrics"
	base "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// What kube-apiserver counts in packages that keep their counters to themselves, or are not here, by its names and in its registry.
var (
	// DiscoveriesMade are the documents of aggregated discovery that were made, of either root.
	DiscoveriesMade = base.NewCounter(&base.CounterOpts{Name: "aggregator_discovery_aggregation_count_total",
		Help: "Counter of number of times discovery was aggregated", StabilityLevel: base.ALPHA})
	// PodLogsUntrusted are the logs of Pods that were found to be of a kubelet with a certificate of somebody else's.
	PodLogsUntrusted = base.NewCounter(&base.CounterOpts{Name: "kube_apiserver_pod_logs_backend_tls_failure_total",
		Help: "Total number of requests for pods/logs that failed due to kubelet server TLS verification", StabilityLevel: base.ALPHA})
	podLogs = base.NewCounterVec(&base.CounterOpts{Name: "kube_apiserver_pod_logs_insecure_backend_total",
		Help: "Total number of requests for pods/logs sliced by usage type: enforce_tls, skip_tls_allowed, skip_tls_denied", StabilityLevel: base.ALPHA},
		[]string{"usage"})
	requestedDurations = base.NewCounterVec(&base.CounterOpts{Name: "apiserver_certificates_registry_csr_requested_duration_total",
		Help:           "Total number of issued CSRs with a requested duration, sliced by signer (only kubernetes.io signer names are specifically identified)",
		StabilityLevel: base.ALPHA}, []string{"signerName"})
	honoredDurations = base.NewCounterVec(&base.CounterOpts{Name: "apiserver_certificates_registry_csr_honored_duration_total",
		Help:           "Total number of issued CSRs with a requested duration that was honored, sliced by signer (only kubernetes.io signer names are specifically identified)",
		StabilityLevel: base.ALPHA}, []string{"signerName"})
)

// CountKept has what is above counted from now on, and what upstream's proxies count of streams through WebSockets.
var CountKept = sync.OnceFunc(func() {
	legacyregistry.MustRegister(DiscoveriesMade, PodLogsUntrusted, podLogs, requestedDurations, honoredDurations)
	proxies.Register()
})

// CountPodLog counts that the log of a Pod was asked for, from a kubelet whose certificate is to be looked at or not.
func CountPodLog(insecure bool) {
	usage := "enforce_tls"
	if insecure {
		usage = "skip_tls_allowed"
	}
	podLogs.WithLabelValues(usage).Inc()
}

// CountIssued counts a certificate that was issued for a request which said how long it was to be valid.
func CountIssued(signer string, honored bool) {
	requestedDurations.WithLabelValues(signer).Inc()
	if honored {
		honoredDurations.WithLabelValues(signer).Inc()
	}
}
