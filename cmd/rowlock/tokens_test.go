package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// as returns a client with only a token.
func (p *process) as(t *testing.T, token string) *kubernetes.Clientset {
	t.Helper()
	admin, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(admin)
	config.BearerToken = token
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// whoami returns the user name of a client.
func whoami(t *testing.T, c *kubernetes.Clientset) string {
	t.Helper()
	review, err := c.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return err.Error()
	}
	return review.Status.UserInfo.Username
}

// Without configuration, ServiceAccounts get tokens that are valid on this server, also after a restart, and their issuer
// and keys are published.
func TestServiceAccountTokens(t *testing.T) {
	dir := t.TempDir()
	p := start(t, "--data-dir", dir)
	accounts := p.client(t).CoreV1().ServiceAccounts("default")
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	request, err := accounts.CreateToken(t.Context(), "robot", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const name = "system:serviceaccount:default:robot"
	if who := whoami(t, p.as(t, request.Status.Token)); who != name {
		t.Errorf("is %s", who)
	}
	if code := p.end(); code != 0 {
		t.Fatalf("ended with %d: %s", code, p.stderr.String())
	}
	p = start(t, "--data-dir", dir, "--log-level", "debug", "--service-account-issuer", "https://new.example.com", "--service-account-issuer", defaultIssuer)
	if who := whoami(t, p.as(t, request.Status.Token)); who != name {
		t.Errorf("after a restart with another issuer, is %s", who)
	}
	if who := whoami(t, p.as(t, request.Status.Token+"x")); !strings.Contains(who, "Unauthorized") {
		t.Errorf("a spoilt token is %s", who)
	}
	config, keys := p.published(t)
	if config["issuer"] != "https://new.example.com" || !strings.Contains(keys, `"alg":"ES256"`) || strings.Contains(keys, `"d":`) {
		t.Errorf("published %v %s", config, keys)
	}
	p.end()
	for _, part := range strings.Split(request.Status.Token, ".")[1:] {
		if strings.Contains(p.stderr.String(), part) {
			t.Errorf("the log has a token: %s", p.stderr.String())
		}
	}
}

// published returns the documents of the issuer.
func (p *process) published(t *testing.T) (config map[string]any, keys string) {
	t.Helper()
	admin, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(admin)
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) []byte {
		response, err := client.Get(admin.Host + path)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatal(response.Status, err)
		}
		return body
	}
	if err := json.Unmarshal(get("/.well-known/openid-configuration"), &config); err != nil {
		t.Fatal(err)
	}
	return config, string(get("/openid/v1/jwks"))
}

// The external host may have a port of its own, as with kube-apiserver: a load balancer's. Where no address can be made of it, the documents of the
// issuer are not served, and the rest is.
func TestExternalHostname(t *testing.T) {
	const host = "api.example.org:8443"
	p := start(t, "--data-dir", t.TempDir(), "--external-hostname", host)
	if config, _ := p.published(t); config["jwks_uri"] != "https://"+host+"/openid/v1/jwks" {
		t.Errorf("the keys are at %s", config["jwks_uri"])
	}
	if api := p.path(t, "/api"); !strings.Contains(api, `"serverAddress":"`+host+`"`) {
		t.Errorf("/api: %s", api)
	}
	p.end()
	p = start(t, "--data-dir", t.TempDir(), "--external-hostname", "https://api.example.org")
	if said := p.path(t, "/openid/v1/jwks"); !strings.Contains(said, "the server could not find the requested resource") {
		t.Errorf("the keys are served: %s", said)
	}
	if ready := p.path(t, "/readyz"); !strings.Contains(ready, "readyz check passed") {
		t.Errorf("it is not ready: %s", ready)
	}
	p.end()
	if log := p.stderr.String(); !strings.Contains(log, "are not published") || !strings.Contains(log, "https://api.example.org") {
		t.Errorf("the log: %s", log)
	}
}

// A Pod that is created right after its namespace gets the ServiceAccount of the namespace, and its token.
func TestPodsGetTokens(t *testing.T) {
	p := start(t, "--data-dir", t.TempDir(), "--default-not-ready-toleration-seconds", "17", "--external-hostname", "api.example.org")
	client := p.client(t)
	ctx := t.Context()
	if config, _ := p.published(t); !strings.HasPrefix(fmt.Sprint(config["jwks_uri"]), "https://api.example.org:") {
		t.Errorf("the keys are at %s", config["jwks_uri"])
	}
	if _, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "first"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	made, err := client.CoreV1().Pods("new").Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(made.Spec.Volumes) != 1 || !strings.HasPrefix(made.Spec.Volumes[0].Name, "kube-api-access-") || made.Spec.ServiceAccountName != "default" ||
		made.Spec.Volumes[0].Projected.Sources[1].ConfigMap.Name != "kube-root-ca.crt" ||
		made.Spec.Containers[0].VolumeMounts[0].MountPath != "/var/run/secrets/kubernetes.io/serviceaccount" {
		t.Errorf("made %+v", made.Spec)
	}
	if tolerated := made.Spec.Tolerations; len(tolerated) != 2 || *tolerated[0].TolerationSeconds != 17 || *tolerated[1].TolerationSeconds != 300 {
		t.Errorf("tolerates %v", tolerated)
	}
	wanted := made.Spec.Volumes[0].Projected.Sources[0].ServiceAccountToken
	request, err := client.CoreV1().ServiceAccounts("new").CreateToken(ctx, "default", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: wanted.ExpirationSeconds, BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: "first", UID: made.UID}}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	own := p.as(t, request.Status.Token)
	if who := whoami(t, own); who != "system:serviceaccount:new:default" {
		t.Errorf("is %s", who)
	}
	if err := client.CoreV1().Pods("new").Delete(ctx, "first", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
	if who := whoami(t, own); !strings.Contains(who, "Unauthorized") {
		t.Errorf("after the Pod has gone, is %s", who)
	}
	_, err = client.CoreV1().Pods("new").Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: corev1.PodSpec{ServiceAccountName: "none",
		Containers: pod.Spec.Containers}}, metav1.CreateOptions{})
	if want := `pods "other" is forbidden: error looking up service account new/none: serviceaccount "none" not found`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// The token of a Secret is valid as long as the Secret exists, unless the lookup is disabled.
func TestTokensInSecrets(t *testing.T) {
	for _, lookup := range []string{"true", "false"} {
		t.Run(lookup, func(t *testing.T) { testTokenInSecret(t, lookup == "true") })
	}
}

func testTokenInSecret(t *testing.T, lookup bool) {
	p := start(t, "--data-dir", t.TempDir(), fmt.Sprintf("--service-account-lookup=%v", lookup))
	secrets, ctx := p.client(t).CoreV1().Secrets("default"), t.Context()
	w, err := secrets.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if _, err := p.client(t).CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{Type: corev1.SecretTypeServiceAccountToken, ObjectMeta: metav1.ObjectMeta{Name: "token",
		Annotations: map[string]string{corev1.ServiceAccountNameKey: "robot"}}}
	if _, err := secrets.Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token := ""
	for token == "" {
		e, ok := <-w.ResultChan()
		if !ok {
			t.Fatal("there is no token")
		}
		token = string(e.Object.(*corev1.Secret).Data["token"])
	}
	own := p.as(t, token)
	if who := whoami(t, own); who != "system:serviceaccount:default:robot" {
		t.Errorf("is %s", who)
	}
	if err := secrets.Delete(ctx, "token", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if who := whoami(t, own); strings.Contains(who, "Unauthorized") != lookup {
		t.Errorf("after the Secret has gone, is %s", who)
	}
}
