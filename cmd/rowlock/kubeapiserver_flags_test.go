package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Values of flags that have no effect are refused as by kube-apiserver v1.37.1, with its messages.
func TestFlagsWithoutEffectAreChecked(t *testing.T) {
	turnOnAgain(t, "UnknownVersionInteroperabilityProxy")
	for line, want := range map[string]string{
		"--peer-ca-file=x --feature-gates=UnknownVersionInteroperabilityProxy=false": "--peer-ca-file requires UnknownVersionInteroperabilityProxy feature to be turned on",
		"--coordinated-leadership-lease-duration=10s":                                "--coordinated-leadership-lease-duration must be greater than --coordinated-leadership-renew-deadline",
		"--coordinated-leadership-renew-deadline=2s":                                 "Error: --coordinated-leadership-renew-deadline must be greater than --coordinated-leadership-retry-period",
		"--coordinated-leadership-retry-period=20s":                                  "Error: --coordinated-leadership-renew-deadline must be greater than --coordinated-leadership-retry-period",
		"--storage-backend=x":                                                        "--storage-backend invalid, allowed values: etcd3. If not specified, it will default to 'etcd3'",
		"--storage-backend=etcd3 --storage-media-type=x":                             "Error: --storage-media-type \"x\" invalid, allowed values: application/json, application/vnd.kubernetes.protobuf, application/yaml",
		"--etcd-servers-overrides=/pods#http://a,x":                                  "--etcd-servers-overrides invalid, must be of format: group/resource#servers, where servers are URLs, semicolon separated",
		"--etcd-servers-overrides=pods#http://a":                                     "--etcd-servers-overrides invalid",
		"--etcd-servers-overrides=a/b#http://c;":                                     "--etcd-servers-overrides invalid",
		"--emulation-forward-compatible":                                             "ServerRunOptions.EmulationForwardCompatible cannot be set to true if the emulation version is the same as the binary version",
		"--emulation-forward-compatible --emulated-version=kube=1.37":                "ServerRunOptions.EmulationForwardCompatible cannot be set to true",
		"--runtime-config-emulation-forward-compatible":                              "ServerRunOptions.RuntimeConfigEmulationForwardCompatible cannot be set to true if the emulation version is the same as the binary version",
		"--apiserver-count=0":                                                        "--apiserver-count should be a positive number, but value '0' provided",
	} {
		code, _, stderr := command(t, append([]string{"kube-apiserver", "--etcd-servers=x"}, strings.Fields(line)...)...)
		if code != exitFailure || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit code %d, stderr %q, want %q", line, code, stderr, want)
		}
	}
	for _, line := range []string{
		"", "--coordinated-leadership-lease-duration=11s", "--coordinated-leadership-retry-period=9s",
		"--storage-backend= --storage-media-type=application/yaml", "--storage-backend=etcd3 --etcd-servers-overrides=/pods#http://a;http://b,a/b#c",
		"--emulation-forward-compatible --emulated-version=1.36", "--runtime-config-emulation-forward-compatible --emulated-version=kube=1.35",
		"--emulation-forward-compatible=false", "--apiserver-count=1",
	} {
		var o kubeAPIServerOptions
		cmd := &cobra.Command{}
		addSections(cmd, o.sections())
		if err := cmd.ParseFlags(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
		if errs := checkInert(o.inert); len(errs) > 0 {
			t.Errorf("%q: %v", line, errs)
		}
	}
}
