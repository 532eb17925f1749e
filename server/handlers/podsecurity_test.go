package handlers_test

import (
	"strings"
	"testing"
)

// The metrics count PodSecurity's evaluations and exemptions of Pods.
func TestPodSecurityIsCounted(t *testing.T) {
	a := newAPI(t)
	a.run(exchange{do: "POST /api/v1/namespaces", body: `{"metadata":{"name":"strict","labels":{"pod-security.kubernetes.io/enforce":"baseline"}}}`, code: 201},
		exchange{do: "POST /api/v1/namespaces/strict/pods", body: `{"metadata":{"name":"d"},"spec":{"hostNetwork":true,"containers":[{"name":"a","image":"a"}]}}`, code: 403})
	counted := `pod_security_evaluations_total{decision="deny",mode="enforce",policy_level="baseline",policy_version="latest",request_operation="create",resource="pod",subresource=""}`
	if metrics := a.send(exchange{do: "GET /metrics"}).Body.String(); !strings.Contains(metrics, "\n"+counted) {
		t.Errorf("not counted: %s", counted)
	}
}
