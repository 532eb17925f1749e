package main

import (
	"strings"
	"testing"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// --fast-paths turns fast paths off, on both command lines and from the environment. The error for --tls-san, which follows,
// ends the commands.
func TestFastPathsAreChosen(t *testing.T) {
	for _, line := range []string{"serve", "kube-apiserver --etcd-servers http://127.0.0.1:1"} {
		for _, choice := range []string{"flag", "environment"} {
			for _, p := range fastpath.All() {
				t.Cleanup(p.Turn(true))
			}
			args := strings.Fields(line + " --tls-san https://example.com")
			if choice == "flag" {
				t.Setenv(fastpath.Environment, "")
				args = append(args, "--fast-paths=-merge-patch,-protobuf")
			} else {
				t.Setenv(fastpath.Environment, "-merge-patch,-protobuf")
			}
			if code, _, stderr := command(t, args...); code == 0 || !strings.Contains(stderr, "--tls-san") {
				t.Fatalf("%q: exit code %d, stderr %q", args, code, stderr)
			}
			if fastpath.MergePatch.On() || fastpath.Protobuf.On() || !fastpath.JSONPatch.On() {
				t.Errorf("%q, by %s: the choice was not heeded", line, choice)
			}
		}
	}
}
