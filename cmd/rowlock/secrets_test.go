package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rowlock/rowlock/resources/upstream"
)

// No credential is in the log at its highest verbosity, in the audit at level Metadata, in a metric, in a debugging page or in an answer, whether
// it was accepted or not. Nor is a key by which objects are encrypted.
func TestNoSecretIsTold(t *testing.T) {
	dir := t.TempDir()
	file, audit, policy, encryption := filepath.Join(dir, "tokens"), filepath.Join(dir, "audit.log"), filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "encryption.yaml")
	const ofFile = "s3cret-of-the-file-which-nobody-else-knows"
	for name, text := range map[string]string{file: ofFile + ",alice,1\n", policy: "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	encryptSecrets(t, encryption, secretbox("k"))
	p := start(t, "--data-dir", dir, "--log-level", "debug", "--token-auth-file", file, "--enable-bootstrap-token-auth", "--audit-policy-file", policy,
		"--audit-log-path", audit, "--encryption-provider-config", encryption)
	t.Cleanup(func() { // it is the verbosity of all the process
		if err := upstream.SetVerbosity("0"); err != nil {
			t.Error(err)
		}
	})
	if answer := p.ask(t, p.admin(t), "PUT", "/debug/flags/v", "10"); !strings.Contains(answer, "successfully set") {
		t.Errorf("the verbosity is not set: %s", answer)
	}
	send(t, p.client(t), "POST", "/api/v1/namespaces/kube-system/secrets", `{"metadata":{"name":"bootstrap-token-abcdef"},"type":"bootstrap.kubernetes.io/token",
		"stringData":{"token-id":"abcdef","token-secret":"0123456789abcdeg","usage-bootstrap-authentication":"true"}}`)
	users := must(t, "token", "create", "--data-dir", dir, "--user", "jane", "--encryption-provider-config", encryption)
	accounts := robot(t, p.client(t))()
	ofSecret := p.tokenOfSecret(t)
	admin := p.admin(t)
	answers, anonymous := &bytes.Buffer{}, rest.AnonymousClientConfig(admin)
	anonymous.NextProtos = []string{"http/1.1"} // this protocol has upgrades
	for _, token := range []string{ofFile, "abcdef.0123456789abcdeg", users, accounts, ofSecret} {
		for _, shown := range []string{token, token[:len(token)-1], token + "x", " " + token, "x." + token} {
			for _, method := range []string{"GET", "POST", "PROPFIND"} {
				answers.WriteString(p.ask(t, anonymous, method, "/api/v1/namespaces/kube-system/secrets", "", "Authorization", "Bearer "+shown))
			}
			answers.WriteString(p.ask(t, anonymous, "GET", "/api", "", "Sec-WebSocket-Protocol",
				"base64url.bearer.authorization.k8s.io."+base64.RawURLEncoding.EncodeToString([]byte(shown))+", v4.channel.k8s.io", "Connection", "Upgrade", "Upgrade", "websocket"))
			answers.WriteString(p.ask(t, anonymous, "GET", "/api", "", "Authorization", "Basic "+shown))
		}
		review := p.ask(t, admin, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", fmt.Sprintf(`{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","spec":{"token":%q}}`, token), "Content-Type", "application/json")
		if !strings.Contains(review, `"authenticated":true`) {
			t.Errorf("a token that is good is reviewed as %s", review)
		}
		p.ask(t, admin, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", fmt.Sprintf(`{"spec":{"token":%q},}`, token), "Content-Type", "application/json")
	}
	for _, path := range []string{"/metrics", "/flagz", "/statusz", "/debug/api_priority_and_fairness/dump_requests", "/rowlock/tokens", "/debug/pprof/goroutine?debug=2"} {
		answers.WriteString(p.ask(t, admin, "GET", path, ""))
	}
	if code := p.end(); code != 0 {
		t.Errorf("ended with %d", code)
	}
	key, err := os.ReadFile(filepath.Join(dir, "pki", "sa.key"))
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := os.ReadFile(audit)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(p.stderr.String(), "authentication failed") || !strings.Contains(answers.String(), "Unauthorized") || !strings.Contains(string(recorded), "tokenreviews") {
		t.Fatal("what is looked through is not what was written")
	}
	signature, signatureOfSecret := strings.Split(accounts, "."), strings.Split(ofSecret, ".")
	for name, secret := range map[string]string{"token of the file": ofFile, "bootstrap token": "0123456789abcdeg"[:15], "token of a user": users[len(users)-50 : len(users)-1],
		"token of a ServiceAccount": signature[2][:40], "claims of a ServiceAccount": signature[1][:40], "token of a Secret": signatureOfSecret[2][:40],
		"token of a Secret in base64": base64.StdEncoding.EncodeToString([]byte(ofSecret))[:40], "key of encryption": base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))), "key of tokens": strings.Split(string(key), "\n")[1],
		"administrator's key": base64.StdEncoding.EncodeToString(admin.KeyData)[60:120], "administrator's key in PEM": strings.Split(string(admin.KeyData), "\n")[1]} {
		for where, text := range map[string]string{"log": p.stderr.String(), "answers": answers.String(), "audit": string(recorded)} {
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("the %s is in the %s: …%s", name, where, text[max(0, i-200):min(len(text), i+len(secret)+20)])
			}
		}
	}
}

// admin returns the administrator's configuration.
func (p *process) admin(t *testing.T) *rest.Config {
	t.Helper()
	admin, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return admin
}

// tokenOfSecret creates a Secret for the ServiceAccount robot, and returns the token with which the controller fills it.
func (p *process) tokenOfSecret(t *testing.T) string {
	t.Helper()
	secrets := p.client(t).CoreV1().Secrets("default")
	watch, err := secrets.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=of-robot"})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	if _, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "of-robot", Annotations: map[string]string{corev1.ServiceAccountNameKey: "robot"}},
		Type: corev1.SecretTypeServiceAccountToken}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for event := range watch.ResultChan() {
		if secret, is := event.Object.(*corev1.Secret); is && len(secret.Data[corev1.ServiceAccountTokenKey]) > 0 {
			return string(secret.Data[corev1.ServiceAccountTokenKey])
		}
	}
	t.Fatal("the Secret is not filled")
	return ""
}

// ask sends a request, and returns the whole answer.
func (p *process) ask(t *testing.T, as *rest.Config, method, path, body string, headers ...string) string {
	t.Helper()
	client, err := rest.HTTPClientFor(as)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, as.Host+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(response.Status, response.Header, string(data))
}
