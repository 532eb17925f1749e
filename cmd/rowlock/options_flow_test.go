package main

import "testing"

// TestFairnessNeedsItsTypes compares with validateAPIPriorityAndFairness of kube-apiserver.
func TestFairnessNeedsItsTypes(t *testing.T) {
	for runtimeConfig, want := range map[string]string{
		"":             "",
		"api/ga=false": "--runtime-config=api/ga=false conflicts with --enable-priority-and-fairness=true",
		"api/all=false,flowcontrol.apiserver.k8s.io/v1=true": "",
		"flowcontrol.apiserver.k8s.io/v1=false":              "--runtime-config=flowcontrol.apiserver.k8s.io/v1=false conflicts with --enable-priority-and-fairness=true",
	} {
		got := ""
		if err := (&flowOptions{fair: true}).conflict(runtimeConfig); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", runtimeConfig, got, want)
		}
		if err := (&flowOptions{}).conflict(runtimeConfig); err != nil {
			t.Errorf("%q without priority and fairness: %v", runtimeConfig, err)
		}
	}
}
