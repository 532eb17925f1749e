package server_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/conversion"
)

// What upstream's converter counts of conversion webhooks is among the metrics.
func TestConversionsAreCounted(t *testing.T) {
	conversion.Metrics.ObserveConversionWebhookSuccess(t.Context(), time.Second)
	body := get(newServer(t, nil).Handler(), "/metrics", "master").Body.String()
	for _, name := range []string{"apiserver_conversion_webhook_request_total{", "apiserver_conversion_webhook_duration_seconds_count{"} {
		if !strings.Contains(body, "\n"+name) {
			t.Errorf("there is no %s", name)
		}
	}
}
