package upstream

import (
	"context"
	"strings"

	impersonation "k8s.io/apiserver/pkg/endpoints/filters/impersonation/metrics"
	requests "k8s.io/apiserver/pkg/endpoints/metrics"
	authentication "k8s.io/apiserver/pkg/server/options/authenticationconfig/metrics"
	"k8s.io/apiserver/pkg/server/options/authorizationconfig/metrics"
	base "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/prometheus/compatversion"
	"k8s.io/kubernetes/pkg/serviceaccount"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/node"
)

// CountAuthenticationFiles has upstream count how often the AuthenticationConfiguration was read again. It comes before the first is
// counted.
func CountAuthenticationFiles() { authentication.RegisterMetrics() }

// CountAuthorizationFiles has upstream count how often the configuration of authorizers was read again. It comes before the first is
// counted.
func CountAuthorizationFiles() { metrics.RegisterMetrics() }

// CountNodeGraph has upstream show how long changes of the graph of nodes took.
func CountNodeGraph() { node.RegisterMetrics() }

// CountServiceAccountTokens has upstream show which kinds of tokens of ServiceAccounts are in use.
func CountServiceAccountTokens() { serviceaccount.RegisterMetrics() }

// CountImpersonations has upstream show how often users were others, or tried to. It comes before the first is counted.
func CountImpersonations() { impersonation.RegisterMetrics() }

// CountVersions has upstream show which release this is, and of which it could be.
func CountVersions() {
	v := Version()
	compatversion.RecordCompatVersionInfo(context.Background(), "kube", strings.TrimPrefix(Release, "v"), v.EmulationMajor+"."+v.EmulationMinor,
		v.MinCompatibilityMajor+"."+v.MinCompatibilityMinor)
}

// CountRequests has upstream count which requests its filters ended, and which handshakes failed. It comes before the first is counted.
func CountRequests() { requests.Register() }

// LimitMetrics has upstream not count metrics, by their names, and not tell values of their labels apart, by what SetLabelAllowList takes;
// and count what it hides by default. It comes before the first is counted.
func LimitMetrics(disabled []string, labels map[string]string, showHidden bool) {
	if showHidden {
		base.SetShowHidden()
	}
	base.SetDisabledMetrics(disabled)
	if len(labels) > 0 {
		base.SetLabelAllowList(labels)
	}
}
