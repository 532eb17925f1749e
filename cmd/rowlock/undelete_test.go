package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

const shopDeployments = "/apis/apps/v1/namespaces/shop/deployments"

// Integers that no float64 can represent are shown, compared and written unchanged.
func TestHistoryOfLargeNumbers(t *testing.T) {
	const large, field = "9007199254740993", "spec.template.spec.terminationGracePeriodSeconds"
	h := startHistorian(t, storePlace{dir: filepath.Join(t.TempDir(), "data")})
	made := send(t, h.client, "POST", shopDeployments, `{"metadata":{"name":"web"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":
		{"metadata":{"labels":{"a":"b"}},"spec":{"terminationGracePeriodSeconds":`+large+`,"containers":[{"name":"c","image":"i"}]}}}}`)
	value := func() string {
		t.Helper()
		return gjson.Get(send(t, h.client, "GET", shopDeployments+"/web", ""), field).Raw
	}
	restore := []string{"restore", "deployment/web", "-n", "shop", "--revision", gjson.Get(made, "metadata.resourceVersion").Str}
	if out := h.does(t, restore...); out != "deployments.apps/shop/web: unchanged\n" || value() != large {
		t.Errorf("of what is as it was it says %s; the number is %s", out, value())
	}
	if diff := h.does(t, "history", "deployment/web", "-n", "shop", "--diff"); !strings.Contains(diff, "terminationGracePeriodSeconds: "+large+"\n") {
		t.Errorf("the change is shown as\n%s", diff)
	}
	send(t, h.client, "PATCH", shopDeployments+"/web", `{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":9007199254740992}}}}`)
	if out := h.does(t, restore...); out != "deployments.apps/shop/web: updated\n" || value() != large {
		t.Errorf("restore says %s; the number is %s", out, value())
	}
	send(t, h.client, "DELETE", shopDeployments+"/web", "")
	if out := h.does(t, "undelete", "deployment/web", "-n", "shop"); out != "deployments.apps/shop/web: created\n" || value() != large {
		t.Errorf("undelete says %s; the number is %s", out, value())
	}
	h.end()
}

// A Job is restored with a selector for its new uid, which the server generates; a given selector stays.
func TestUndeleteOfJobs(t *testing.T) {
	const shopJobs = "/apis/batch/v1/namespaces/shop/jobs"
	h := startHistorian(t, storePlace{dir: filepath.Join(t.TempDir(), "data")})
	for name, spec := range map[string]string{
		"generated": `"template":{"metadata":{"labels":{"a":"b"}},`,
		"given":     `"manualSelector":true,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},`,
	} {
		made := send(t, h.client, "POST", shopJobs, `{"metadata":{"name":"`+name+`"},"spec":{`+spec+`"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}`)
		send(t, h.client, "DELETE", shopJobs+"/"+name, `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}`)
		if out := h.does(t, "undelete", "job/"+name, "-n", "shop"); out != "jobs.batch/shop/"+name+": created\n" {
			t.Errorf("%s: it says %s", name, out)
		}
		now := send(t, h.client, "GET", shopJobs+"/"+name, "")
		was, is := gjson.Get(made, "metadata.uid").Str, gjson.Get(now, "metadata.uid").Str
		for _, path := range []string{"spec.selector", "spec.template"} {
			if got, want := gjson.Get(now, path).Raw, strings.ReplaceAll(gjson.Get(made, path).Raw, was, is); got != want || was == is {
				t.Errorf("%s: the %s is %s, want %s", name, path, got, want)
			}
		}
		// The second Job is restored to the state of the first, except for the fields derived from the uid.
		send(t, h.client, "PATCH", shopJobs+"/"+name, `{"metadata":{"labels":{"later":"x"}},"spec":{"parallelism":5}}`)
		if out := h.does(t, "restore", "job/"+name, "-n", "shop", "--revision", gjson.Get(made, "metadata.resourceVersion").Str); out != "jobs.batch/shop/"+name+": updated\n" {
			t.Errorf("%s: restore says %s", name, out)
		}
		restored := send(t, h.client, "GET", shopJobs+"/"+name, "")
		if got := gjson.Get(restored, "spec").Raw; got != gjson.Get(now, "spec").Raw || gjson.Get(restored, "metadata.labels.later").Exists() {
			t.Errorf("%s: it was restored as %s, want %s", name, restored, now)
		}
	}
	h.end()
}

// An owner of a version that is no longer served counts as deleted.
func TestUndeleteWithoutAnOwner(t *testing.T) {
	h := startHistorian(t, storePlace{dir: filepath.Join(t.TempDir(), "data")})
	for _, group := range []string{"gone.example.com/v1", "apps/v0"} {
		send(t, h.client, "PATCH", shopMap, `{"metadata":{"ownerReferences":[{"apiVersion":"`+group+`","kind":"Widget","name":"w","uid":"u"}]}}`)
		send(t, h.client, "DELETE", shopMap, "")
		if out := h.does(t, "undelete", "cm/a", "-n", "shop"); !strings.Contains(out, "its owner Widget w is not there, and is left out\n") || h.value(t, "v") != "2" {
			t.Errorf("%s: it says %s; the object is %s", group, out, h.value(t, "v"))
		}
	}
	h.end()
}

// A name may contain characters with a meaning in selectors.
func TestHistoryOfNames(t *testing.T) {
	const name = `a,b=c\d`
	h := startHistorian(t, storePlace{dir: filepath.Join(t.TempDir(), "data")})
	send(t, h.client, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", `{"metadata":{"name":"a,b=c\\d"}}`)
	if rows := h.history(t, "clusterrole/"+name); len(rows) != 1 || !strings.HasPrefix(rows[0], "Create ") {
		t.Errorf("the history of %s is %q", name, rows)
	}
	h.end()
}
