package main

import (
	"bufio"
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// Extension API servers get the front proxy configuration of the user; it consists of another server's files here.
func TestGivenFrontProxy(t *testing.T) {
	other := t.TempDir()
	if code := start(t, "--data-dir", other).end(); code != 0 {
		t.Fatal(code)
	}
	file := func(name string) string { return filepath.Join(other, "pki", name) }
	p := start(t, "--data-dir", t.TempDir(), "--proxy-client-cert-file", file("front-proxy-client.crt"), "--proxy-client-key-file", file("front-proxy-client.key"),
		"--requestheader-client-ca-file", file("front-proxy-ca.crt"), "--requestheader-allowed-names", "front-proxy-client,gate",
		"--requestheader-username-headers", "X-User", "--requestheader-group-headers", "X-Group,x-remote-group")
	config, err := p.client(t).CoreV1().ConfigMaps("kube-system").Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	authority, err := os.ReadFile(file("front-proxy-ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"client-ca-file": string(authority), "allowed-names": `["front-proxy-client","gate"]`, "username-headers": `["X-User","X-Remote-User"]`,
		"uid-headers": `["X-Remote-Uid"]`, "group-headers": `["X-Group","x-remote-group"]`, "extra-headers-prefix": `["X-Remote-Extra-"]`} {
		if got := config.Data["requestheader-"+key]; strings.TrimSpace(got) != strings.TrimSpace(want) {
			t.Errorf("%s is %s, want %s", key, got, want)
		}
	}
	if answer, err := p.client(t).Discovery().RESTClient().Get().AbsPath("/readyz/poststarthook/aggregator-reload-proxy-client-cert").DoRaw(t.Context()); string(answer) != "ok" {
		t.Errorf("the check of the certificate: %s %v", answer, err)
	}
	// Headers that are named are trusted, and no others.
	as, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	as.CertFile, as.KeyFile, as.CertData, as.KeyData = file("front-proxy-client.crt"), file("front-proxy-client.key"), nil, nil
	proxy, err := kubernetes.NewForConfig(as)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(user string) ([]byte, error) {
		return proxy.Discovery().RESTClient().Post().AbsPath("/apis/authentication.k8s.io/v1/selfsubjectreviews").SetHeader(user, "jane").
			SetHeader("X-Remote-Uid", "42").SetHeader("X-Remote-Extra-Scopes", "all").SetHeader("X-Group", "a").Body([]byte(`{}`)).DoRaw(t.Context())
	}
	body, err := ask("X-User")
	if who := gjson.GetBytes(body, "status.userInfo"); err != nil || who.Get("username").Str != "jane" || who.Get("groups.0").Str != "a" ||
		who.Get("uid").Exists() || who.Get("extra").Exists() {
		t.Errorf("behind the proxy: %v %s", err, body)
	}
	if body, err = ask("X-Remote-User"); !apierrors.IsUnauthorized(err) {
		t.Errorf("by a header that is not named: %v %s", err, body)
	}
	if code := p.end(); code != 0 {
		t.Errorf("ended with %d", code)
	}
}

// If an APIService refers to the Service of the API, this server sends the request to itself, whatever the cluster's addresses reach.
func TestAPIServiceOfTheServerItself(t *testing.T) {
	// No server has this address: the Service has an endpoint, which must not be used.
	p := start(t, "--data-dir", t.TempDir(), "--advertise-address", "192.0.2.1")
	client := p.client(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	self, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	const apiServices = "/apis/apiregistration.k8s.io/v1/apiservices"
	watch, err := client.Discovery().RESTClient().Get().AbsPath(apiServices).Param("watch", "1").Param("fieldSelector", "metadata.name=v1.self.example.com").Stream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	send(t, client, "POST", apiServices, `{"metadata":{"name":"v1.self.example.com"},"spec":{"group":"self.example.com","version":"v1","groupPriorityMinimum":2000,"versionPriority":10,
		"insecureSkipTLSVerify":true,"service":{"namespace":"default","name":"kubernetes","port":443}}}`)
	for events := bufio.NewReader(watch); ; {
		event, err := events.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		c := gjson.Get(event, "object.status.conditions.0") // it does not serve the version
		if want := "bad status from https://" + self.Host + "/apis/self.example.com/v1: "; c.Get("reason").Str == "FailedDiscoveryCheck" && strings.Contains(c.Get("message").Str, want) {
			break
		}
		t.Log(c.Raw)
	}
	if code := p.end(); code != 0 {
		t.Errorf("ended with %d", code)
	}
}

// A server to which an APIService of another server refers knows the user of a forwarded request: by the front proxy's
// certificate and its headers.
func TestChainedServers(t *testing.T) {
	outerDir := t.TempDir()
	outer := start(t, "--data-dir", outerDir)
	inner := start(t, "--data-dir", t.TempDir(), "--requestheader-client-ca-file", filepath.Join(outerDir, "pki", "front-proxy-ca.crt"),
		"--requestheader-allowed-names", "front-proxy-client")
	config, err := clientcmd.BuildConfigFromFlags("", inner.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	send(t, inner.client(t), "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"metadata":{"name":"toys.chain.example.com"},
		"spec":{"group":"chain.example.com","scope":"Cluster","names":{"kind":"Toy","plural":"toys"},"versions":[{"name":"v1","served":true,"storage":true,
		"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`)
	send(t, inner.client(t), "POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", `{"metadata":{"name":"toys"},"rules":[{"apiGroups":["chain.example.com"],"resources":["toys"],"verbs":["*"]}]}`)
	send(t, inner.client(t), "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{"metadata":{"name":"toys"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"toys"},
		"subjects":[{"kind":"Group","apiGroup":"rbac.authorization.k8s.io","name":"players"}]}`)
	send(t, outer.client(t), "POST", "/api/v1/namespaces/default/services", `{"metadata":{"name":"inner"},"spec":{"type":"ExternalName","externalName":"localhost"}}`)
	// Both servers have to authorize the requests: the outer one checks its own roles first.
	send(t, outer.client(t), "POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", `{"metadata":{"name":"toys"},"rules":[{"apiGroups":["chain.example.com"],"resources":["toys"],"verbs":["*"]}]}`)
	send(t, outer.client(t), "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{"metadata":{"name":"toys"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"toys"},
		"subjects":[{"kind":"Group","apiGroup":"rbac.authorization.k8s.io","name":"system:authenticated"}]}`)
	const apiServices = "/apis/apiregistration.k8s.io/v1/apiservices"
	w, err := outer.client(t).Discovery().RESTClient().Get().AbsPath(apiServices).Param("watch", "1").Param("fieldSelector", "metadata.name=v1.chain.example.com").Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	send(t, outer.client(t), "POST", apiServices, `{"metadata":{"name":"v1.chain.example.com"},"spec":{"group":"chain.example.com","version":"v1","groupPriorityMinimum":2000,"versionPriority":10,
		"insecureSkipTLSVerify":true,"service":{"namespace":"default","name":"inner","port":`+at.Port()+`}}}`)
	for events := bufio.NewReader(w); ; {
		event, err := events.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if gjson.Get(event, `object.status.conditions.#(type=="Available").status`).Str == "True" {
			break
		}
		t.Log(event)
	}
	const toys = "/apis/chain.example.com/v1/toys"
	jane := outer.as(t, must(t, "token", "create", "--data-dir", outerDir, "--user", "jane", "--group", "players"))
	if body, err := jane.RESTClient().Get().AbsPath(toys).DoRaw(t.Context()); err != nil {
		t.Errorf("jane: %v %s", err, body)
	}
	john := outer.as(t, must(t, "token", "create", "--data-dir", outerDir, "--user", "john"))
	body, err := john.RESTClient().Get().AbsPath(toys).SetHeader("X-Remote-Group", "players").DoRaw(t.Context())
	if !apierrors.IsForbidden(err) || !strings.Contains(string(body), `User \"john\" cannot list`) {
		t.Errorf("john: %v %s", err, body)
	}
	for _, p := range []*process{outer, inner} {
		if code := p.end(); code != 0 {
			t.Errorf("ended with %d", code)
		}
	}
}
