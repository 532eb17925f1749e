package main

import (
	"strings"
	"testing"
)

// Every health check is there once, under a name that kube-apiserver has.
func TestHealthChecks(t *testing.T) {
	p := start(t, "--data-dir", t.TempDir())
	answer, err := p.client(t).Discovery().RESTClient().Get().AbsPath("/readyz").Param("verbose", "").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(answer)) {
		if seen[line] {
			t.Errorf("twice: %s", line)
		}
		seen[line] = true
	}
	for _, name := range []string{"etcd", "informer-sync", "autoregister-completion", "poststarthook/start-apiextensions-informers",
		"poststarthook/start-apiextensions-controllers", "poststarthook/crd-informer-synced", "poststarthook/apiservice-registration-controller",
		"poststarthook/apiservice-status-local-available-controller", "poststarthook/apiservice-status-remote-available-controller",
		"poststarthook/apiservice-discovery-controller", "poststarthook/apiservice-openapi-controller", "poststarthook/apiservice-openapiv3-controller",
		"poststarthook/kube-apiserver-autoregistration", "poststarthook/start-kube-aggregator-informers"} {
		if !seen["[+]"+name+" ok\n"] {
			t.Errorf("there is no %s in %s", name, answer)
		}
	}
	if code := p.end(); code != 0 {
		t.Errorf("ended with %d", code)
	}
}
