package upstream_test

import (
	"strings"
	"testing"
	"time"

	impersonation "k8s.io/apiserver/pkg/endpoints/filters/impersonation/metrics"
	authentication "k8s.io/apiserver/pkg/server/options/authenticationconfig/metrics"
	"k8s.io/apiserver/pkg/server/options/authorizationconfig/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/node"

	"github.com/rowlock/rowlock/resources/upstream"
)

// Upstream's metrics are in its registry after the calls, however often these are made.
func TestUpstreamCounts(t *testing.T) {
	for range 2 {
		upstream.CountAuthenticationFiles()
		upstream.CountAuthorizationFiles()
		upstream.CountNodeGraph()
		upstream.CountServiceAccountTokens()
		upstream.CountImpersonations()
	}
	authentication.RecordAuthenticationConfigAutomaticReloadFailure("server")
	metrics.RecordAuthorizationConfigAutomaticReloadFailure("server")
	impersonation.RecordImpersonationAttempt("legacy", "allowed", time.Second)
	node.NewGraph().AddResourceSlice("s", "n")
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range families {
		names = append(names, f.GetName())
	}
	for _, name := range []string{"apiserver_authentication_config_controller_automatic_reloads_total",
		"apiserver_authorization_config_controller_automatic_reloads_total", "node_authorizer_graph_actions_duration_seconds",
		"apiserver_impersonation_attempts_total", "serviceaccount_legacy_tokens_total", "serviceaccount_legacy_manual_token_uses_total",
		"serviceaccount_legacy_auto_token_uses_total", "serviceaccount_invalid_legacy_auto_token_uses_total", "serviceaccount_stale_tokens_total",
		"serviceaccount_valid_tokens_total"} {
		if !strings.Contains(strings.Join(names, " "), name) {
			t.Errorf("there is no %s", name)
		}
	}
}
