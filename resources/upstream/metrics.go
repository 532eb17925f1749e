package upstream

import (
	"context"
	"strings"

	impersonation "k8s.io/apiserver/pkg/endpoints/filters/impersonation/metrics"
	requests "k8s.io/apiserver/pkg/endpoints/metrics"
	authentication "k8s.io/apiserver/pkg/server/options/authenticationconfig/metrics"
	"k8s.io/apiserver/pkg/server/options/authorizationconfig/metrics"
	base "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/prometheus/compatversion"
	"k8s.io/kubernetes/pkg/serviceaccount"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/node"
)

// CountAuthenticationFiles makes upstream count the reloads of the AuthenticationConfiguration. It comes before the first one.
func CountAuthenticationFiles() { authentication.RegisterMetrics() }

// CountAuthorizationFiles makes upstream count the reloads of the authorizers' configuration. It comes before the first one.
func CountAuthorizationFiles() { metrics.RegisterMetrics() }

// CountNodeGraph makes upstream measure the changes of the graph of nodes.
func CountNodeGraph() { node.RegisterMetrics() }

// CountServiceAccountTokens makes upstream count the kinds of ServiceAccount tokens in use.
func CountServiceAccountTokens() { serviceaccount.RegisterMetrics() }

// CountImpersonations makes upstream count impersonations and attempts. It comes before the first one.
func CountImpersonations() { impersonation.RegisterMetrics() }

// CountVersions makes upstream show this release, and the releases that it could emulate.
func CountVersions() {
	v := Version()
	compatversion.RecordCompatVersionInfo(context.Background(), "kube", strings.TrimPrefix(Release, "v"), v.EmulationMajor+"."+v.EmulationMinor,
		v.MinCompatibilityMajor+"."+v.MinCompatibilityMinor)
}

// CountRequests makes upstream count the requests that its filters ended, and the handshakes that failed. It comes before the first one.
func CountRequests() { requests.Register() }

// LimitMetrics makes upstream drop metrics, by their names, and merge label values, by SetLabelAllowList's format; and count metrics that
// it hides by default. It comes before the first metric is counted.
func LimitMetrics(disabled []string, labels map[string]string, showHidden bool) {
	if showHidden {
		base.SetShowHidden()
	}
	base.SetDisabledMetrics(disabled)
	if len(labels) > 0 {
		base.SetLabelAllowList(labels)
	}
}

// ResetMetrics drops all counts of upstream's registry, as kube-apiserver does at DELETE /metrics.
func ResetMetrics() { legacyregistry.Reset() }
