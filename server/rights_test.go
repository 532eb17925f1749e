package server_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/authz"
)

// granting returns a function that grants a user rules cluster-wide.
func granting(t *testing.T, h http.Handler, who string) func(rules string) {
	t.Helper()
	must(t, h, admin, "POST", rbacPath+"clusterroles", role("ClusterRole", "of-"+who, ""))
	must(t, h, admin, "POST", rbacPath+"clusterrolebindings", bindingOf("ClusterRoleBinding", "of-"+who, "ClusterRole", "of-"+who, who))
	all := ""
	return func(rules string) {
		t.Helper()
		all = strings.TrimPrefix(all+","+rules, ",")
		must(t, h, admin, "PATCH", rbacPath+"clusterroles/of-"+who, `{"rules":[`+all+`]}`)
	}
}

// certificateRequest returns a certificate request, and a certificate of its key, both in DER.
func certificateRequest(t *testing.T) (request, certificate []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if request, err = x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key); err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	if certificate, err = x509.CreateCertificate(rand.Reader, template, template, key.Public(), key); err != nil {
		t.Fatal(err)
	}
	return request, certificate
}

func pemOf(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// To approve, sign or attest for a signer takes the right to do so for this signer, in addition to that of the request.
func TestSignersTakeRights(t *testing.T) {
	h := guarded(t, "RBAC")
	give := granting(t, h, "jane")
	der, certificate := certificateRequest(t)
	in64 := func(data []byte) string { return base64.StdEncoding.EncodeToString(data) }
	const certificates = "/apis/certificates.k8s.io/v1/"
	const requests = certificates + "namespaces/default/podcertificaterequests"
	must(t, h, admin, "POST", certificates+"certificatesigningrequests", `{"metadata":{"name":"c"},"spec":{"signerName":"example.com/one","usages":["client auth"],"request":"`+
		in64([]byte(pemOf("CERTIFICATE REQUEST", der)))+`"}}`)
	must(t, h, admin, "POST", requests, `{"metadata":{"name":"p"},"spec":{"signerName":"example.com/one","podName":"p","podUID":"u","serviceAccountName":"s","serviceAccountUID":"u",
		"nodeName":"n","nodeUID":"u","maxExpirationSeconds":86400,"stubPKCS10Request":"`+in64(der)+`"}}`)
	bundle, err := json.Marshal(pemOf("CERTIFICATE", certificate))
	if err != nil {
		t.Fatal(err)
	}
	give(`{"apiGroups":["certificates.k8s.io"],"resources":["*"],"verbs":["create","patch"]}`)
	give(`{"apiGroups":["certificates.k8s.io"],"resources":["signers"],"resourceNames":["example.com/two","other.com/*"],"verbs":["*"]}`)
	for _, c := range []struct {
		verb, signer, method, path, body string
		refused                          int
		message                          string
	}{
		{"approve", "example.com/one", "PATCH", certificates + "certificatesigningrequests/c/approval", `{"status":{"conditions":[{"type":"Approved","status":"True","reason":"r"}]}}`,
			403, `user not permitted to approve requests with signerName "example.com/one"`},
		{"sign", "example.com/*", "PATCH", certificates + "certificatesigningrequests/c/status", `{"status":{"certificate":"` + in64([]byte(pemOf("CERTIFICATE", certificate))) + `"}}`,
			403, `user not permitted to sign requests with signerName "example.com/one"`},
		{"sign", "example.com/one", "PATCH", requests + "/p/status", `{"status":{"conditions":[{"type":"Denied","status":"True","reason":"R","message":"m","lastTransitionTime":"2026-11-30T00:00:00Z"}]}}`,
			422, `User "jane" is not permitted to "sign" for signer "example.com/one"`},
		{"attest", "example.com/*", "POST", certificates + "clustertrustbundles", `{"metadata":{"name":"example.com:one:b"},"spec":{"signerName":"example.com/one","trustBundle":` + string(bundle) + `}}`,
			403, `user not permitted to attest for signerName "example.com/one"`},
	} {
		request{c.method, c.path + "?dryRun=All", c.body, c.refused, c.message}.check(t, h, "jane")
		must(t, h, admin, "POST", rbacPath+"clusterroles", role("ClusterRole", "signs", `{"apiGroups":["certificates.k8s.io"],"resources":["signers"],"resourceNames":["`+c.signer+`"],"verbs":["`+c.verb+`"]}`))
		must(t, h, admin, "POST", rbacPath+"clusterrolebindings", bindingOf("ClusterRoleBinding", "signs", "ClusterRole", "signs", "jane"))
		must(t, h, "jane", c.method, c.path, c.body)
		must(t, h, admin, "DELETE", rbacPath+"clusterrolebindings/signs", "")
		must(t, h, admin, "DELETE", rbacPath+"clusterroles/signs", "")
	}
}

// Connections to a Pod take the right to create, whatever the method.
func TestConnectionsTakeTheRightToCreate(t *testing.T) {
	h := guarded(t, "RBAC")
	give := granting(t, h, "jane")
	must(t, h, admin, "POST", "/api/v1/namespaces/default/serviceaccounts", `{"metadata":{"name":"default"}}`)
	must(t, h, admin, "POST", "/api/v1/namespaces/default/pods", `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	give(`{"apiGroups":[""],"resources":["pods/exec","pods/attach","pods/portforward"],"verbs":["get"]}`)
	const pod = "/api/v1/namespaces/default/pods/p"
	paths := map[string]string{"exec": "/exec?command=ls&stdout=1", "attach": "/attach?stdout=1", "portforward": "/portforward"}
	for name, path := range paths {
		request{"POST", pod + path, "", 403, `User "jane" cannot create resource "pods/` + name + `" in API group "" in the namespace "default"`}.check(t, h, "jane")
		request{"GET", pod + path, "", 403, `pods "p" is forbidden: "`}.check(t, h, "jane") // upstream gives the authorizer's reason only
	}
	give(`{"apiGroups":[""],"resources":["pods/exec","pods/attach","pods/portforward"],"verbs":["create"]}`)
	for _, path := range paths {
		for _, method := range []string{"GET", "POST"} {
			request{method, pod + path, "", 400, "pod p does not have a host assigned"}.check(t, h, "jane")
		}
	}
}

// A change of a ResourceClaim's status takes the right to bind claims, or the right of the driver whose devices change. A driver on a node may
// have it for the claims of this node only.
func TestStatusOfClaimsTakesRights(t *testing.T) {
	const driver = "system:serviceaccount:default:driver"
	s, _ := guardedBy(t, authz.Options{Modes: []string{"RBAC"}}, func(c *server.Config) {
		given := c.Authenticator
		c.Authenticator = func(r *http.Request) (user.Info, bool, error) {
			who, ok, err := given(r)
			if info, is := who.(*user.DefaultInfo); is && info.Name == driver {
				info.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {r.Header.Get("Test-Node")}}
			}
			return who, ok, err
		}
	})
	h := s.Handler()
	const claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
	must(t, h, admin, "POST", claims, `{"metadata":{"name":"c"},"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"d.example.com"}}]}}}`)
	onStatus := `{"apiGroups":["resource.k8s.io"],"resources":["resourceclaims/status"],"verbs":["patch"]}`
	asJane := granting(t, h, "jane")
	asJane(onStatus)
	allocate := request{"PATCH", claims + "/c/status", `{"status":{"reservedFor":[{"resource":"pods","name":"p","uid":"u"}],"allocation":{
		"devices":{"results":[{"request":"r","driver":"d.example.com","pool":"p","device":"x"}]},
		"nodeSelector":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["a"]}]}]}}}}`, 422,
		`changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="patch" permission`}
	allocate.check(t, h, "jane")
	asJane(`{"apiGroups":["resource.k8s.io"],"resources":["resourceclaims/binding"],"verbs":["patch"]}`)
	must(t, h, "jane", allocate.method, allocate.path, allocate.body)

	must(t, h, admin, "POST", rbacPath+"clusterroles", role("ClusterRole", "driver", onStatus+
		`,{"apiGroups":["resource.k8s.io"],"resources":["resourceclaims/driver"],"resourceNames":["d.example.com"],"verbs":["associated-node:patch"]}`))
	must(t, h, admin, "POST", rbacPath+"clusterrolebindings", bindingOf("ClusterRoleBinding", "driver", "ClusterRole", "driver", driver))
	devices := `{"status":{"devices":[{"driver":"d.example.com","pool":"p","device":"x","conditions":[]}]}}`
	const refused = `changing status.devices requires resource="resourceclaims/driver", verb="[arbitrary-node:patch]" permission`
	request{"PATCH", claims + "/c/status", devices, 422, refused}.check(t, h, "jane")
	for node, want := range map[string]int{"b": 422, "a": 200} {
		if code, body := send(h, driver, "PATCH", claims+"/c/status?dryRun=All", devices, "Test-Node", node); code != want {
			t.Errorf("a driver on %s: %d %s", node, code, body)
		}
	}
	asJane(`{"apiGroups":["resource.k8s.io"],"resources":["resourceclaims/driver"],"resourceNames":["d.example.com"],"verbs":["arbitrary-node:patch"]}`)
	must(t, h, "jane", "PATCH", claims+"/c/status", devices)
}
