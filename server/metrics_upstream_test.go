package server_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/conversion"
)

// The metrics of upstream's packages are included, for example those of conversion webhooks.
func TestUpstreamsCountsAreShown(t *testing.T) {
	conversion.Metrics.ObserveConversionWebhookSuccess(t.Context(), time.Second)
	answer := get(newServer(t, nil).Handler(), "/metrics", "master")
	if began, err := strconv.ParseInt(answer.Header().Get("Process-Start-Time-Unix"), 10, 64); err != nil || time.Since(time.Unix(began, 0)) > time.Hour {
		t.Errorf("the process began at %d, %v", began, err)
	}
	body := answer.Body.String()
	for _, name := range []string{"apiserver_conversion_webhook_request_total{", "apiserver_conversion_webhook_duration_seconds_count{",
		"apiserver_cel_compilation_duration_seconds_count ", "apiserver_cel_evaluation_duration_seconds_count ",
		"apiserver_validation_declarative_validation_mismatch_total ", "apiserver_validation_declarative_validation_panic_total ",
		`registered_metrics_total{deprecated_version="",stability_level="STABLE"} `,
		`version_info{binary="1.37.1",component="kube",emulation="1.37",min_compat="1.36"} 1`} {
		if !strings.Contains(body, "\n"+name) {
			t.Errorf("there is no %s", name)
		}
	}
}
