package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// Of a history that takes long to read, a shell offers the objects that it received in time.
func TestCompletionOfALongHistory(t *testing.T) {
	const (
		group = `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[{"metadata":{"name":%q},"versions":[{"version":"v1","resources":[%s]}]}]}`
		maps  = `{"resource":"configmaps","shortNames":["cm"],"scope":"Namespaced","responseKind":{"group":"","version":"v1","kind":"ConfigMap"}}`
		page  = `{"metadata":{"continue":"more"},"items":[{"object":{"name":"b"}},{"object":{"name":"a"}},{"object":{"name":"b"}}]}`
	)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/api":
			fmt.Fprintf(w, group, "", maps)
		case r.URL.Path == "/apis":
			fmt.Fprintf(w, group, "history.rowlock.dev", "")
		case r.URL.Query().Get("continue") == "":
			fmt.Fprint(w, page)
		default:
			<-r.Context().Done()
		}
	}))
	defer server.Close()
	config := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(config, fmt.Appendf(nil, `{"clusters":[{"name":"a","cluster":{"server":%q}}],"contexts":[{"name":"a","context":{"cluster":"a"}}],"current-context":"a"}`, server.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, subcommand := range []string{"history", "undelete"} {
		if got, want := completes(t, subcommand, "--kubeconfig", config, "cm/"), "cm/a\ncm/b\n:4\n"; got != want {
			t.Errorf("%s: %q, want %q", subcommand, got, want)
		}
	}
}
