package server_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
)

// Admitted and rejected requests are counted by step, plugin and operation. Plugins that were not called are not counted.
func TestAdmissionStepsAreCounted(t *testing.T) {
	h := newServer(t, nil).Handler()
	send := func(method, path, body string) int {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Authorization", "known")
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	value := func(name string) string {
		for line := range strings.Lines(get(h, "/metrics", "known").Body.String()) {
			if value, ok := strings.CutPrefix(line, name+" "); ok {
				return strings.TrimSpace(value)
			}
		}
		return ""
	}
	count := func(labels string) string {
		return value("apiserver_admission_step_admission_duration_seconds_count" + labels)
	}
	const refused, deleted = `{operation="CREATE",rejected="true",type="admit"}`, `{operation="DELETE",rejected="false",type="validate"}`
	if before := count(refused) + count(deleted); before != "" {
		t.Fatalf("before the first: %s", before)
	}
	for path, want := range map[string]int{"/api/v1/namespaces/none/configmaps": 404, "/api/v1/namespaces/default/configmaps": 201} {
		if got := send("POST", path, `{"metadata":{"name":"a"}}`); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	if got := send("DELETE", "/api/v1/namespaces/default/configmaps/a", ""); got != 200 {
		t.Errorf("the deletion is answered with %d", got)
	}
	if got := count(refused); got != "1" {
		t.Errorf("%q were refused, want 1", got)
	}
	if got := count(deleted); got != "1" {
		t.Errorf("%q deletions were validated, want 1", got)
	}
	if got := count(`{operation="CREATE",rejected="false",type="validate"}`); got == "" {
		t.Error("no create was validated")
	}
	const plugin = `apiserver_admission_controller_admission_duration_seconds_count{name="%s",operation="%s",rejected="%s",type="%s"}`
	for _, c := range []struct {
		name, operation, rejected, step string
		want                            string
	}{
		{"NamespaceLifecycle", "CREATE", "true", "admit", "1"},
		{"ValidatingAdmissionPolicy", "DELETE", "false", "validate", "1"},
		{"NamespaceLifecycle", "CREATE", "false", "validate", ""}, // it has no validating step
		{"ResourceQuota", "CONNECT", "false", "validate", ""},
	} {
		if got := value(fmt.Sprintf(plugin, c.name, c.operation, c.rejected, c.step)); got != c.want {
			t.Errorf("%+v: counted %q times", c, got)
		}
	}
}
