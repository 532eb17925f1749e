package server

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/version" // kubernetes_build_info
)

// upstreamFamilies are the names, or prefixes, of the metrics in upstream's own registry that are correct in this server.
var upstreamFamilies = []string{
	"apiserver_admission_", "apiserver_audit_", "apiserver_validating_admission_policy_", "apiserver_mutating_admission_policy_", "apiserver_webhooks_x509_",
	"pod_security_", "workqueue_", "kubernetes_build_info", "version_info", unexpectedTotal, "disabled_metrics_total", "hidden_metrics_total",
	"registered_metrics_total", "kubernetes_feature_enabled", "apiserver_cel_", "apiserver_validation_", "apiserver_conversion_webhook_", "apiserver_crd_conversion_webhook_", "apiserver_manifest_admission_config_controller_",
	"apiserver_authorization_", "node_authorizer_", "apiserver_authentication_", "authentication_token_cache_",
	"apiserver_impersonation_", "serviceaccount_",
	"apiserver_flowcontrol_", "apiserver_request_terminations_total", "apiserver_request_aborts_total", "apiserver_tls_handshake_errors_total",
	"apiserver_storage_transformation_", "apiserver_storage_envelope_transformation_", "apiserver_storage_data_key_generation_",
	"apiserver_envelope_encryption_", "apiserver_encryption_config_controller_",
	"aggregator_discovery_aggregation_", "apiserver_kube_aggregator_x509_", "kube_apiserver_pod_logs_", "apiserver_certificates_registry_", "apiserver_stream_", "apiserver_websocket_streaming_",
	"kube_apiserver_clusterip_allocator_allocation_", "kube_apiserver_nodeport_allocator_allocation_", // gauges: builtin.ServiceMetrics
}

// withUpstreams adds the metrics of upstream's packages to a registry.
func withUpstreams(own prometheus.Gatherer) prometheus.Gatherer {
	return prometheus.Gatherers{own, prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		all, err := legacyregistry.DefaultGatherer.Gather()
		return slices.DeleteFunc(all, func(f *dto.MetricFamily) bool {
			return !slices.ContainsFunc(upstreamFamilies, func(prefix string) bool { return strings.HasPrefix(f.GetName(), prefix) })
		}), err
	})}
}
