package server_test

import (
	"encoding/json"
	"slices"
	"testing"
)

// All paths in the index exist, and the index has the paths that people and probes for kube-apiserver use.
func TestIndex(t *testing.T) {
	h := newServer(t, nil).Handler()
	var index struct{ Paths []string }
	if err := json.Unmarshal(get(h, "/", "known").Body.Bytes(), &index); err != nil {
		t.Fatal(err)
	}
	if !slices.IsSorted(index.Paths) {
		t.Errorf("not in order: %v", index.Paths)
	}
	for _, path := range index.Paths {
		want := 200
		if path == "/openapi/v3/" {
			want = 404 // it only has paths below; kube-apiserver lists it, too, and answers alike
		}
		if w := get(h, path, "known"); w.Code != want {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	for _, path := range []string{"/api/v1", "/apis/", "/apis/apps/v1", "/healthz/ping", "/livez/ping", "/openapi/v3/", "/readyz/informer-sync",
		"/readyz/shutdown", "/statusz", "/healthz/autoregister-completion", "/readyz/poststarthook/scheduling/bootstrap-system-priority-classes"} {
		if !slices.Contains(index.Paths, path) {
			t.Errorf("%s is not listed", path)
		}
	}
	if w := get(h, "/index.html", "known"); w.Code != 200 {
		t.Errorf("/index.html: %d", w.Code)
	}
}
