package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

const shopDeployments = "/apis/apps/v1/namespaces/shop/deployments"

// Integers that no float64 has are shown, compared and written as they were.
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
