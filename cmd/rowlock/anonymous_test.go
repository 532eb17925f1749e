package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// An AuthenticationConfiguration says which paths allow anonymous requests, in place of --anonymous-auth.
func TestAnonymousByFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "authentication.yaml")
	write := func(anonymous string) {
		t.Helper()
		if err := os.WriteFile(file, []byte("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\nanonymous: "+anonymous+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		anonymous string
		codes     map[string]int
		review    string // the user of a blank token
	}{
		{"{enabled: true, conditions: [{path: /livez}]}", map[string]int{"/livez": 200, "/livez/": 401, "/readyz": 401, "/api": 401, "/api/v1/pods": 401}, ""},
		{"{enabled: true}", map[string]int{"/livez": 200, "/api": 403, "/api/v1/pods": 403}, "system:anonymous"},
		{"{enabled: false}", map[string]int{"/livez": 401, "/api": 401}, ""},
	} {
		write(tc.anonymous)
		p := start(t, "--data-dir", t.TempDir(), "--authentication-config", file)
		for path, want := range tc.codes {
			if code, body := p.askAnonymously(t, path); code != want {
				t.Errorf("%s: %s: %d %s", tc.anonymous, path, code, body)
			}
		}
		review, err := p.client(t).AuthenticationV1().TokenReviews().Create(t.Context(), reviewOf(" x"), metav1.CreateOptions{})
		if err != nil || review.Status.Error != "" || review.Status.Authenticated != (tc.review != "") || review.Status.User.Username != tc.review {
			t.Errorf("%s: a token that is blank: %+v, %v", tc.anonymous, review.Status, err)
		}
		if code := p.end(); code != 0 {
			t.Errorf("ended with %d", code)
		}
	}
	code, _, stderr := command(t, "serve", "--data-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--authentication-config", file, "--anonymous-auth=true")
	if want := "anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is configured in authentication configuration file"; code != exitFailure || !strings.Contains(stderr, want) {
		t.Errorf("ended with %d, %s", code, stderr)
	}
	write("{enabled: false, conditions: [{path: /livez}]}")
	code, _, stderr = command(t, "serve", "--data-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--authentication-config", file)
	if code != exitFailure || !strings.Contains(stderr, "enabled should be set to true when conditions are defined") {
		t.Errorf("ended with %d, %s", code, stderr)
	}
}

// askAnonymously requests a path without credentials.
func (p *process) askAnonymously(t *testing.T, path string) (int, string) {
	t.Helper()
	admin, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(rest.AnonymousClientConfig(admin))
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), "GET", admin.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}
