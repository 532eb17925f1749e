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
	seen, hooks := map[string]bool{}, []string(nil)
	for line := range strings.Lines(string(answer)) {
		if seen[line] {
			t.Errorf("twice: %s", line)
		}
		seen[line] = true
		if hook, ok := strings.CutPrefix(line, "[+]poststarthook/"); ok {
			hooks = append(hooks, strings.TrimSuffix(hook, " ok\n"))
		}
	}
	compareHooks(t, hooks)
	for _, name := range []string{"etcd", "informer-sync", "autoregister-completion"} {
		if !seen["[+]"+name+" ok\n"] {
			t.Errorf("there is no %s in %s", name, answer)
		}
	}
	if code := p.end(); code != 0 {
		t.Errorf("ended with %d", code)
	}
}
