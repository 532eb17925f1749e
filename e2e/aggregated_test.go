package e2e

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// extensionServer serves the resource fruits of a group to the front proxy whose authority is in the ConfigMap, and names each fruit after the user
// of the request.
func extensionServer(t *testing.T, group, serverName string) (port int, bundle string) {
	return extensionServerOf(t, shared.client, group, serverName)
}

// extensionServerOf is extensionServer behind the server of a client.
func extensionServerOf(t *testing.T, client kubernetes.Interface, group, serverName string) (port int, bundle string) {
	t.Helper()
	trust, err := client.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	proxies := x509.NewCertPool()
	if !proxies.AppendCertsFromPEM([]byte(trust.Data["requestheader-client-ca-file"])) {
		t.Fatalf("no authority of a proxy: %v", trust.Data)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "extension"}, DNSNames: []string{serverName},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	var allowed []string
	if err := json.Unmarshal([]byte(trust.Data["requestheader-allowed-names"]), &allowed); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name := r.TLS.VerifiedChains[0][0].Subject.CommonName; len(allowed) != 1 || name != allowed[0] {
			http.Error(w, "who is "+name, http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		switch path := strings.TrimPrefix(r.URL.Path, "/apis/"+group+"/v1"); {
		case path == r.URL.Path:
			http.NotFound(w, r) // only the older discovery is served
		case path == "":
			fmt.Fprintf(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"%s/v1","resources":[
				{"name":"fruits","singularName":"fruit","namespaced":true,"kind":"Fruit","verbs":["get","list"]}]}`, group)
		default:
			fmt.Fprintf(w, `{"kind":"FruitList","apiVersion":"%s/v1","metadata":{},"items":[{"kind":"Fruit","apiVersion":"%s/v1","metadata":{"name":"of-%s","namespace":%q}}]}`,
				group, group, r.Header.Get("X-Remote-User"), strings.Split(path, "/")[2])
		}
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: proxies}
	s.Config.ErrorLog = log.New(&bytes.Buffer{}, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.Listener.Addr().(*net.TCPAddr).Port, base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// TestAggregatedAPI checks that kubectl finds and uses the API of another server, which an APIService registers, and that the APIService's status
// says when that server is unavailable.
func TestAggregatedAPI(t *testing.T) {
	namespace := unique("e2e")
	kubectl{}.run(t, "create", "namespace", namespace)
	group := namespace + ".example.com"
	port, bundle := extensionServer(t, group, "fruits."+namespace+".svc")
	k := kubectl{namespace: namespace, stdin: fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: fruits}
spec: {type: ExternalName, externalName: localhost}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.%s}
spec:
  group: %s
  version: v1
  groupPriorityMinimum: 1000
  versionPriority: 10
  caBundle: %s
  service: {namespace: %s, name: fruits, port: %d}
`, group, group, bundle, namespace, port)}
	k.run(t, "apply", "-f", "-")
	defer kubectl{}.run(t, "delete", "apiservice", "v1."+group)
	kubectl{}.run(t, "wait", "--for=condition=Available", "--timeout=30s", "apiservice/v1."+group)
	wants(t, kubectl{}.run(t, "get", "apiservice", "v1."+group), namespace+"/fruits", "True")
	// Rowlock fetches its discovery in the background, so it may appear a moment later.
	fresh := kubectl{namespace: namespace}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var list string
	if err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
		list = fresh.run(t, "api-resources", "--cached=false", "--api-group", group)
		return strings.Contains(list, "fruits"), nil
	}); err != nil {
		t.Fatalf("%v: %s", err, list)
	}
	wants(t, list, group+"/v1", "Fruit")
	wants(t, fresh.run(t, "get", "fruits", "--as", "jane", "--as-group", "system:masters", "-o", "name"), "fruit."+group+"/of-jane")
	wants(t, fresh.run(t, "get", "--raw", "/apis/"+group), `"groupVersion":"`+group+`/v1"`)

	fresh.run(t, "delete", "service", "fruits")
	kubectl{}.run(t, "wait", "--for=condition=Available=False", "--timeout=30s", "apiservice/v1."+group)
	wants(t, kubectl{}.run(t, "get", "apiservice", "v1."+group), "False (ServiceNotFound)")
	_, stderr, err := fresh.try(t, "get", "--raw", "/apis/"+group+"/v1")
	if err == nil {
		t.Error("what is not available answers")
	}
	wants(t, stderr, "the server is currently unable to handle the request")
	// An unavailable APIService affects no other requests, and no deletion of a namespace.
	wants(t, fresh.run(t, "get", "configmaps", "-o", "name"), "")
	kubectl{}.run(t, "delete", "namespace", namespace, "--timeout=30s")
}
