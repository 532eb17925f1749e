package server_test

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// What admission lets through and what it refuses is counted, by the step and the operation, and what it is not asked about is not.
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
	const name = "apiserver_admission_step_admission_duration_seconds_count"
	count := func(labels string) string {
		for line := range strings.Lines(get(h, "/metrics", "known").Body.String()) {
			if value, ok := strings.CutPrefix(line, name+labels+" "); ok {
				return strings.TrimSpace(value)
			}
		}
		return ""
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
}
