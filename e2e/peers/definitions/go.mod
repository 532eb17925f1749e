// Published CustomResourceDefinitions, which tests and benchmarks read from the module cache (harness.Published). Nothing of these modules is
// built: go.sum has the modules themselves and not what they need, and `go mod tidy` would empty this file.
module github.com/rowlock/rowlock/e2e/peers/definitions

go 1.26.6

require (
	github.com/argoproj/argo-cd/v3 v3.3.0
	github.com/cert-manager/cert-manager v1.21.2
	github.com/crossplane/crossplane/v2 v2.0.0
	github.com/external-secrets/external-secrets v1.3.2
	github.com/fluxcd/source-controller v1.9.0
	github.com/kyverno/kyverno v1.19.1
	github.com/prometheus-operator/prometheus-operator v0.85.0
	istio.io/api v1.31.1
	knative.dev/serving v0.51.0
	sigs.k8s.io/cluster-api v1.14.2
	sigs.k8s.io/gateway-api v1.6.3
)
