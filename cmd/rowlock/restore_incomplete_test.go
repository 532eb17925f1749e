package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// With --incomplete, objects that cannot be restored are reported, and those of their group and of later groups are restored without them.
func TestRestoreIncomplete(t *testing.T) {
	dir, file := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "backup")
	p := start(t, "--data-dir", dir)
	defer p.end()
	client := p.client(t)
	shop(t, client)
	const (
		maps   = "/api/v1/namespaces/shop/configmaps"
		limits = "/api/v1/namespaces/shop/limitranges"
		policy = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
	)
	send(t, client, "POST", maps, `{"metadata":{"name":"set"},"data":{"v":"1"}}`)
	send(t, client, "POST", limits, `{"metadata":{"name":"last"},"spec":{"limits":[{"type":"Pod","max":{"cpu":"9"}}]}}`)
	runs(t, "backup", file, "--data-dir", dir)

	send(t, client, "PATCH", maps+"/set", `{"data":{"v":"2"},"immutable":true}`)
	send(t, client, "POST", policy+"ies", `{"metadata":{"name":"no"},"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":["apps"],"apiVersions":["v1"],
		"operations":["CREATE"],"resources":["deployments"]}]},"validations":[{"expression":"false","message":"not today"}]}}`)
	send(t, client, "POST", policy+"ybindings", `{"metadata":{"name":"no"},"spec":{"policyName":"no","validationActions":["Deny"]}}`)
	for _, path := range []string{"/apis/apps/v1/namespaces/shop/replicasets/web-1", shopDeployments + "/web", maps + "/a", limits + "/last"} {
		send(t, client, "DELETE", path, "")
	}
	restore := func(more ...string) (int, string, string) {
		return command(t, append([]string{"restore", file, "--data-dir", dir, "--namespace", "shop"}, more...)...)
	}
	if code, _, stderr := restore(); code != exitFailure || !strings.HasSuffix(stderr, "2 objects cannot be taken back: nothing of that group was written; say --incomplete to go without\n") {
		t.Errorf("without --incomplete: %d, %s", code, stderr)
	}
	for _, does := range []string{"would be created", "created"} {
		more := []string{"--incomplete", "--dry-run"}
		if does == "created" {
			more = more[:1]
		}
		code, stdout, stderr := restore(more...)
		if code != exitFailure || !strings.HasSuffix(stderr, "Error: 2 objects cannot be taken back\n") {
			t.Errorf("%s: exit code %d, %s", more, code, stderr)
		}
		for _, want := range []string{"configmaps/shop/set: cannot be taken back: ", "deployments.apps/shop/web: cannot be taken back: ", "configmaps/shop/a: " + does + "\n",
			"replicasets.apps/shop/web-1: its owner Deployment web is not there, and is left out\n", "replicasets.apps/shop/web-1: " + does + "\n",
			"limitranges/shop/last: " + does + "\n"} {
			if !strings.Contains(stdout, want) {
				t.Errorf("%s: it lacks %q: %s", more, want, stdout)
			}
		}
	}
	if owners := gjson.Get(send(t, client, "GET", "/apis/apps/v1/namespaces/shop/replicasets/web-1", ""), "metadata.ownerReferences"); owners.Exists() {
		t.Errorf("the owners are %s", owners.Raw)
	}
	for _, args := range []string{"restore x --incomplete", "restore cm/a --revision 1 --incomplete"} {
		if code, _, stderr := command(t, append(strings.Fields(args), "--data-dir", dir)...); code != exitUsage {
			t.Errorf("%s: exit code %d, %s", args, code, stderr)
		}
	}
}
