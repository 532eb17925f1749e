package upstream

import (
	"sync"

	proxies "k8s.io/apiserver/pkg/util/proxy/metrics"
	base "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Counters of kube-apiserver that are unexported in its packages, or whose packages are not linked, by its names and in its
// registry.
var (
	// DiscoveriesMade counts the documents of aggregated discovery that were made, of either root.
	DiscoveriesMade = base.NewCounter(&base.CounterOpts{Name: "aggregator_discovery_aggregation_count_total",
		Help: "Counter of number of times discovery was aggregated", StabilityLevel: base.ALPHA})
	// PodLogsUntrusted counts the requests for logs of Pods that failed at the certificate of the kubelet.
	PodLogsUntrusted = base.NewCounter(&base.CounterOpts{Name: "kube_apiserver_pod_logs_backend_tls_failure_total",
		Help: "Total number of requests for pods/logs that failed due to kubelet server TLS verification", StabilityLevel: base.ALPHA})
	// ServersWithoutSAN and ServersWithSHA1 count the requests to aggregated API servers with outdated certificates, and those that failed at one.
	ServersWithoutSAN = base.NewCounter(&base.CounterOpts{Name: "apiserver_kube_aggregator_x509_missing_san_total", Help: "Counts the number of requests to servers missing SAN extension " +
		"in their serving certificate OR the number of connection failures due to the lack of x509 certificate SAN extension missing " +
		"(either/or, based on the runtime environment)", StabilityLevel: base.ALPHA})
	ServersWithSHA1 = base.NewCounter(&base.CounterOpts{Name: "apiserver_kube_aggregator_x509_insecure_sha1_total", Help: "Counts the number of requests to servers with insecure SHA1 " +
		"signatures in their serving certificate OR the number of connection failures due to the insecure SHA1 signatures " +
		"(either/or, based on the runtime environment)", StabilityLevel: base.ALPHA})
	podLogs = base.NewCounterVec(&base.CounterOpts{Name: "kube_apiserver_pod_logs_insecure_backend_total",
		Help: "Total number of requests for pods/logs sliced by usage type: enforce_tls, skip_tls_allowed, skip_tls_denied", StabilityLevel: base.ALPHA},
		[]string{"usage"})
	// NodePortRepairsFailed counts the attempts to repair node ports that failed.
	NodePortRepairsFailed = base.NewCounter(&base.CounterOpts{Name: "apiserver_nodeport_repair_reconcile_errors_total",
		Help: "Number of reconciliation failures on the nodeport repair reconcile loop", StabilityLevel: base.ALPHA})
	nodePortErrors = base.NewCounterVec(&base.CounterOpts{Name: "apiserver_nodeport_repair_port_errors_total",
		Help:           "Number of errors detected on ports by the repair loop broken down by type of error: leak, repair, full, outOfRange, duplicate, unknown",
		StabilityLevel: base.ALPHA}, []string{"type"})
	requestedDurations = base.NewCounterVec(&base.CounterOpts{Name: "apiserver_certificates_registry_csr_requested_duration_total",
		Help:           "Total number of issued CSRs with a requested duration, sliced by signer (only kubernetes.io signer names are specifically identified)",
		StabilityLevel: base.ALPHA}, []string{"signerName"})
	honoredDurations = base.NewCounterVec(&base.CounterOpts{Name: "apiserver_certificates_registry_csr_honored_duration_total",
		Help:           "Total number of issued CSRs with a requested duration that was honored, sliced by signer (only kubernetes.io signer names are specifically identified)",
		StabilityLevel: base.ALPHA}, []string{"signerName"})
)

// CountKept registers the counters above, and those of upstream's proxies for streams through WebSockets.
var CountKept = sync.OnceFunc(func() {
	legacyregistry.MustRegister(DiscoveriesMade, ServersWithoutSAN, ServersWithSHA1, PodLogsUntrusted, podLogs, NodePortRepairsFailed, nodePortErrors, requestedDurations, honoredDurations)
	proxies.Register()
})

// CountPodLog counts a request for the log of a Pod; insecure: the kubelet's certificate is not verified.
func CountPodLog(insecure bool) {
	usage := "enforce_tls"
	if insecure {
		usage = "skip_tls_allowed"
	}
	podLogs.WithLabelValues(usage).Inc()
}

// CountNodePortError counts a node port that is wrong: leak, repair, outOfRange or duplicate.
func CountNodePortError(kind string) { nodePortErrors.WithLabelValues(kind).Inc() }

// CountIssued counts a certificate that was issued for a request with an expirationSeconds.
func CountIssued(signer string, honored bool) {
	requestedDurations.WithLabelValues(signer).Inc()
	if honored {
		honoredDurations.WithLabelValues(signer).Inc()
	}
}
