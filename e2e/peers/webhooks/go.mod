// Modules in which projects publish the configurations of their webhooks, which tests read from the module cache (harness.Webhooks). Nothing of
// them is built: go.sum has the modules themselves and not what they need, and `go mod tidy` would empty this file.
module github.com/rowlock/rowlock/e2e/peers/webhooks

go 1.26.6

require (
	github.com/cert-manager/cert-manager v1.21.2
	github.com/kyverno/kyverno v1.19.1
	github.com/open-policy-agent/gatekeeper/v3 v3.23.1
)
