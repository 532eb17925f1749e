package authn_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rowlock/rowlock/server/authn"
)

// FuzzTokenReviews sends any TokenReview as the answer about a token: without an answer that says so, the token is nobody's.
func FuzzTokenReviews(f *testing.F) {
	const review = `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":%s}`
	for _, status := range []string{`{"authenticated":true,"user":{"username":"jane","uid":"1","groups":["g"],"extra":{"a":["b"]}}}`, `{"authenticated":true,"audiences":["other"]}`,
		`{"authenticated":false,"error":"no"}`, `{"authenticated":true,"user":null}`, `null`} {
		f.Add(fmt.Sprintf(review, status))
	}
	f.Add(`{"apiVersion":"v1","kind":"Status","status":"Failure","code":401}`)
	var text atomic.Pointer[string]
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, *text.Load())
	}))
	f.Cleanup(hook.Close)
	file := filepath.Join(f.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, fmt.Appendf(nil, "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: x, context: {cluster: c}}]\ncurrent-context: x\n",
		hook.URL), 0o600); err != nil {
		f.Fatal(err)
	}
	r := remote(f, authn.RemoteOptions{WebhookConfigFile: file, WebhookVersion: "v1"})
	asked := 0
	f.Fuzz(func(t *testing.T, answer string) {
		text.Store(&answer)
		asked++ // answers are cached by token
		said, ok, err := r.AuthenticateToken(t.Context(), fmt.Sprintf("token-%d", asked))
		if ok && (err != nil || said.User == nil || !strings.Contains(answer, "true")) {
			t.Errorf("%s: is %+v, %v", answer, said, err)
		}
	})
}
