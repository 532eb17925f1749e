package authn_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	tokens "k8s.io/kubernetes/pkg/serviceaccount"

	"github.com/rowlock/rowlock/resources/builtin"
)

// legacy creates a Secret with a token, as the token controller does.
func (w *world) legacy(name string) string {
	w.Helper()
	var account corev1.ServiceAccount
	if err := json.Unmarshal(w.do("GET", "/api/v1/namespaces/space/serviceaccounts/robot", "", admin).Body.Bytes(), &account); err != nil {
		w.Fatal(err)
	}
	secret := corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "space"}}
	public, private := tokens.LegacyClaims(account, secret)
	token, err := w.keys.Legacy().GenerateToken(context.Background(), public, private)
	if err != nil {
		w.Fatal(err)
	}
	w.create("/api/v1/namespaces/space/secrets", `{"metadata":{"name":"`+name+`","annotations":{"kubernetes.io/service-account.name":"robot"}},
		"type":"kubernetes.io/service-account-token","stringData":{"token":"`+token+`"}}`)
	return token
}

// A token in a Secret is valid as long as the Secret exists; the Secret has the day of its last use.
func TestTokensOfSecrets(t *testing.T) {
	w := newWorld(t, builtin.Tokens{})
	token := w.legacy("old")
	for range 2 {
		if who := w.mustKnow(token); who.Username != "system:serviceaccount:space:robot" {
			t.Errorf("is %+v", who)
		}
	}
	const path = "/api/v1/namespaces/space/secrets/old"
	label := `"kubernetes.io/legacy-token-last-used":"` + time.Now().UTC().Format("2006-01-02")
	if body := w.do("GET", path, "", admin).Body.String(); !strings.Contains(body, label) {
		t.Errorf("not marked: %s", body)
	}
	// An invalidated token is refused; only the log has the reason.
	r := httptest.NewRequest("PATCH", path, strings.NewReader(`{"metadata":{"labels":{"kubernetes.io/legacy-token-invalid-since":"2020-01-01"}}}`))
	r.Header.Set("Content-Type", "application/merge-patch+json")
	r.Header.Set("Authorization", "Bearer "+admin)
	a := httptest.NewRecorder()
	if w.handler.ServeHTTP(a, r); a.Code != http.StatusOK {
		t.Fatalf("%d %s", a.Code, a.Body)
	}
	if who := w.who(token); who != nil {
		t.Errorf("put out of use, is %+v", who)
	}
	other := w.legacy("other")
	w.mustKnow(other)
	w.delete("/api/v1/namespaces/space/secrets/other")
	if who := w.who(other); who != nil {
		t.Errorf("without its Secret, is %+v", who)
	}
}
