package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// kubeAPIServerChecks are the checks of kube-apiserver v1.37.1 at /readyz.
const kubeAPIServerChecks = `ping
log
etcd
etcd-readiness
informer-sync
poststarthook/start-apiserver-admission-initializer
poststarthook/generic-apiserver-start-informers
poststarthook/priority-and-fairness-config-consumer
poststarthook/priority-and-fairness-filter
poststarthook/storage-object-count-tracker-hook
poststarthook/start-apiextensions-informers
poststarthook/start-apiextensions-controllers
poststarthook/crd-informer-synced
poststarthook/start-system-namespaces-controller
poststarthook/peer-endpoint-reconciler-controller
poststarthook/start-cluster-authentication-info-controller
poststarthook/start-kube-apiserver-identity-lease-controller
poststarthook/start-kube-apiserver-identity-lease-garbage-collector
poststarthook/storage-readiness
poststarthook/start-legacy-token-tracking-controller
poststarthook/start-service-ip-repair-controllers
poststarthook/rbac/bootstrap-roles
poststarthook/scheduling/bootstrap-system-priority-classes
poststarthook/priority-and-fairness-config-producer
poststarthook/bootstrap-controller
poststarthook/start-kubernetes-service-cidr-controller
poststarthook/start-kube-aggregator-informers
poststarthook/apiservice-status-local-available-controller
poststarthook/apiservice-status-remote-available-controller
poststarthook/apiservice-registration-controller
poststarthook/apiservice-discovery-controller
poststarthook/kube-apiserver-autoregistration
autoregister-completion
poststarthook/apiservice-openapi-controller
poststarthook/apiservice-openapiv3-controller
shutdown`

// The health checks are kube-apiserver's, in its order, also without priority and fairness and without a gate, and with keys that are reloaded.
func TestHealthChecks(t *testing.T) {
	turnOnAgain(t, "UnknownVersionInteroperabilityProxy")
	var hooks []string
	for name := range strings.SplitSeq(kubeAPIServerChecks, "\n") {
		if hook, ok := strings.CutPrefix(name, "poststarthook/"); ok {
			hooks = append(hooks, hook)
		}
	}
	compareHooks(t, hooks)
	fair := strings.Split(kubeAPIServerChecks, "\n")
	unfair := slices.DeleteFunc(slices.Clone(fair), func(name string) bool {
		return name == "poststarthook/priority-and-fairness-config-consumer" || strings.Contains(name, "peer-endpoint")
	})
	unfair[slices.Index(unfair, "poststarthook/priority-and-fairness-filter")] = "poststarthook/max-in-flight-filter"
	keys := filepath.Join(t.TempDir(), "encryption.yaml")
	encryptSecrets(t, keys, "identity: {}")
	reloaded := slices.Insert(slices.Clone(fair), slices.Index(fair, "informer-sync")+1, "poststarthook/start-encryption-provider-config-automatic-reload")
	for _, c := range []struct {
		args, want []string
	}{
		{nil, fair},
		{[]string{"--encryption-provider-config", keys, "--encryption-provider-config-automatic-reload"}, slices.Insert(reloaded, 4, "kms-providers")},
		{[]string{"--enable-priority-and-fairness=false", "--feature-gates", "UnknownVersionInteroperabilityProxy=false"}, unfair},
	} {
		p := start(t, append([]string{"--data-dir", t.TempDir()}, c.args...)...)
		for _, path := range []string{"/readyz", "/livez", "/healthz"} {
			answer, err := p.client(t).Discovery().RESTClient().Get().AbsPath(path).Param("verbose", "").DoRaw(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for line := range strings.Lines(string(answer)) {
				if name, ok := strings.CutSuffix(strings.TrimPrefix(line, "[+]"), " ok\n"); ok {
					names = append(names, name)
				}
			}
			want := slices.Clone(c.want)
			if path != "/readyz" {
				want = slices.DeleteFunc(want, func(name string) bool {
					return name == "etcd-readiness" || name == "informer-sync" || name == "shutdown" || name == "kms-providers" && path == "/livez"
				})
				want = slices.Insert(want, 2, "loopback-serving-certificate")
			}
			if diff := cmp.Diff(want, names); diff != "" {
				t.Errorf("%s of a server with %q: %s", path, c.args, diff)
			}
		}
		if code := p.end(); code != 0 {
			t.Errorf("ended with %d", code)
		}
	}
}
