package server_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/authz"
)

// kubelet is the user of a node's kubelet.
func kubelet(node string) string { return "system:node:" + node + ",system:nodes" }

// kubelets returns a server with NodeRestriction and the nodes a and b, each with a Pod, and a function for the uids of objects by path.
func kubelets(t *testing.T) (http.Handler, func(path string) string) {
	t.Helper()
	s, _ := guardedBy(t, authz.Options{Modes: []string{"Node", "RBAC"}}, func(c *server.Config) { c.EnableAdmissionPlugins = []string{"NodeRestriction"} })
	h := s.Handler()
	must(t, h, admin, "POST", "/apis/storage.k8s.io/v1/csidrivers", `{"metadata":{"name":"d.example.com"},"spec":{"tokenRequests":[{"audience":"store"}]}}`)
	must(t, h, admin, "POST", "/api/v1/persistentvolumes", `{"metadata":{"name":"pv"},"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],
		"claimRef":{"namespace":"default","name":"claim"},"csi":{"driver":"d.example.com","volumeHandle":"h"}}}`)
	must(t, h, admin, "POST", "/api/v1/namespaces/default/persistentvolumeclaims", `{"metadata":{"name":"claim"},"spec":{"volumeName":"pv",
		"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`)
	for _, node := range []string{"a", "b"} {
		must(t, h, admin, "POST", "/api/v1/nodes", `{"metadata":{"name":"`+node+`","labels":{"example.node-restriction.kubernetes.io/zone":"red"}}}`)
		must(t, h, admin, "POST", "/api/v1/namespaces/default/serviceaccounts", `{"metadata":{"name":"robot-`+node+`"}}`)
		must(t, h, admin, "POST", "/api/v1/namespaces/default/pods", `{"metadata":{"name":"on-`+node+`"},"spec":{"nodeName":"`+node+`","serviceAccountName":"robot-`+node+`",
			"containers":[{"name":"c","image":"i"}],"volumes":[{"name":"w","persistentVolumeClaim":{"claimName":"claim"}},{"name":"v","projected":{"sources":[{"serviceAccountToken":{"path":"p","audience":"vault"}}]}}]}}`)
	}
	return h, func(path string) string {
		t.Helper()
		_, body := send(h, admin, "GET", path, "")
		var obj struct{ Metadata struct{ UID string } }
		if err := json.Unmarshal([]byte(body), &obj); err != nil || obj.Metadata.UID == "" {
			t.Fatalf("%s: %v %s", path, err, body)
		}
		return obj.Metadata.UID
	}
}

// request is a request of a kubelet, with its expected result.
type request struct {
	method, path, body string
	code               int
	message            string
}

func (r request) check(t *testing.T, h http.Handler, who string) {
	t.Helper()
	code, body := send(h, who, r.method, r.path, r.body)
	if code != r.code || !strings.Contains(strings.ReplaceAll(body, `\"`, `"`), r.message) {
		t.Errorf("%s %s %s: %d %s\nwant %d %s", r.method, r.path, r.body, code, body, r.code, r.message)
	}
}

// A kubelet may change its own node, except for properties that would attract the workloads of others.
func TestKubeletsHaveOneNode(t *testing.T) {
	h, _ := kubelets(t)
	const nodes = "/api/v1/nodes"
	for _, r := range []request{
		{"PATCH", nodes + "/a", `{"metadata":{"labels":{"kubernetes.io/os":"linux","mine":"x"}}}`, 200, ""},
		{"PATCH", nodes + "/a", `{"metadata":{"labels":{"node-restriction.kubernetes.io/x":"y"}}}`, 403, "is not allowed to modify labels: node-restriction.kubernetes.io/x"},
		{"PATCH", nodes + "/a", `{"metadata":{"labels":{"example.node-restriction.kubernetes.io/zone":null}}}`, 403, "is not allowed to modify labels: example.node-restriction"},
		{"PATCH", nodes + "/a?dryRun=All", `{"metadata":{"labels":{"other.k8s.io/x":"y"}}}`, 403, "is not allowed to modify labels: other.k8s.io/x"},
		{"PATCH", nodes + "/a/status", `{"metadata":{"labels":{"other.k8s.io/x":"y"}}}`, 403, "is not allowed to modify labels"},
		{"PATCH", nodes + "/a", `{"spec":{"taints":[{"key":"k","effect":"NoSchedule"}]}}`, 403, `node "a" is not allowed to modify taints`},
		{"PATCH", nodes + "/a", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"b","uid":"u"}]}}`, 403, `node "a" is not allowed to modify ownerReferences`},
		{"PATCH", nodes + "/a/status", `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, 200, ""},
		{"PATCH", nodes + "/b", `{"metadata":{"labels":{"mine":"x"}}}`, 403, `node "a" is not allowed to modify node "b"`},
		{"PATCH", nodes + "/b/status", `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, 403, `node "a" is not allowed to modify node "b"`},
		{"POST", nodes, `{"metadata":{"name":"c"}}`, 403, `node "a" is not allowed to modify node "c"`},
		{"DELETE", nodes + "/b", ``, 403, ""},
		{"POST", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", `{"metadata":{"name":"a"}}`, 201, ""},
		{"POST", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", `{"metadata":{"name":"b"}}`, 403, `can only access node lease with the same name as the requesting node`},
		{"POST", "/apis/coordination.k8s.io/v1/namespaces/default/leases", `{"metadata":{"name":"a"}}`, 403, `can only access leases in the "kube-node-lease" system namespace`},
		{"POST", "/apis/storage.k8s.io/v1/csinodes", `{"metadata":{"name":"a"},"spec":{"drivers":[]}}`, 201, ""},
		{"POST", "/apis/storage.k8s.io/v1/csinodes", `{"metadata":{"name":"b"},"spec":{"drivers":[]}}`, 403, "can only access CSINode with the same name as the requesting node"},
		{"POST", "/apis/resource.k8s.io/v1/resourceslices", slice("a"), 201, ""},
		{"POST", "/apis/resource.k8s.io/v1/resourceslices", slice("b"), 403, "can only create ResourceSlice with the same NodeName as the requesting node"},
		{"POST", "/apis/certificates.k8s.io/v1/certificatesigningrequests", servingRequest(t, "a"), 201, ""},
		{"POST", "/apis/certificates.k8s.io/v1/certificatesigningrequests", servingRequest(t, "b"), 403, `can only create a node CSR with CN=system:node:a`},
	} {
		r.check(t, h, kubelet("a"))
	}
	// A node that registers itself is restricted in its labels, too.
	request{"POST", nodes, `{"metadata":{"name":"d","labels":{"node-restriction.kubernetes.io/x":"y"}}}`, 403, `node "d" is not allowed to set the following labels`}.check(t, h, kubelet("d"))
	request{"POST", nodes, `{"metadata":{"name":"d","labels":{"kubernetes.io/hostname":"d"}}}`, 201, ""}.check(t, h, kubelet("d"))
	// Other users are not restricted.
	request{"PATCH", nodes + "/a", `{"metadata":{"labels":{"node-restriction.kubernetes.io/x":"y"}}}`, 200, ""}.check(t, h, admin)
}

func slice(node string) string {
	return `{"metadata":{"name":"` + node + `"},"spec":{"driver":"d.example.com","nodeName":"` + node + `","pool":{"name":"p","generation":1,"resourceSliceCount":1},"devices":[{"name":"x"}]}}`
}

// servingRequest requests the serving certificate of a node's kubelet.
func servingRequest(t *testing.T, node string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{node},
		Subject: pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}}, key)
	if err != nil {
		t.Fatal(err)
	}
	encoded := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	return `{"metadata":{"name":"csr-` + node + `"},"spec":{"signerName":"kubernetes.io/kubelet-serving","usages":["digital signature","server auth"],"request":"` + encoded + `"}}`
}

// A kubelet may create only mirror Pods without references, and may not change a Pod of another node.
func TestKubeletsHaveTheirPods(t *testing.T) {
	h, uid := kubelets(t)
	const pods = "/api/v1/namespaces/default/pods"
	owner := func(node, uid string) string {
		return `,"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"` + node + `","uid":"` + uid + `","controller":true}]`
	}
	const mirror = `,"annotations":{"kubernetes.io/config.mirror":"x"}`
	a := uid("/api/v1/nodes/a")
	pod := func(meta, node, spec string) string {
		return `{"metadata":{"name":"new"` + meta + `},"spec":{"nodeName":"` + node + `","enableServiceLinks":false,"automountServiceAccountToken":false,"containers":[{"name":"c","image":"i"}]` + spec + `}}`
	}
	eviction := func(name string) string {
		return `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"` + name + `"}}`
	}
	for _, r := range []request{
		{"POST", pods, pod("", "a", ""), 403, `node "a" can only create mirror pods`},
		{"POST", pods + "?dryRun=All", pod("", "a", ""), 403, `node "a" can only create mirror pods`},
		{"POST", pods, pod(mirror+owner("a", a), "b", ""), 403, `node "a" can only create pods with spec.nodeName set to itself`},
		{"POST", pods, pod(mirror, "a", ""), 403, `node "a" can only create pods with an owner reference set to itself`},
		{"POST", pods, pod(mirror+owner("b", a), "a", ""), 403, `node "a" can only create pods with an owner reference set to itself`},
		{"POST", pods, pod(mirror+owner("a", "other"), "a", ""), 403, `node a UID mismatch`},
		{"POST", pods, pod(mirror+owner("a", a), "a", `,"volumes":[{"name":"v","secret":{"secretName":"s"}}]`), 403, `node "a" can not create pods that reference secrets`},
		{"POST", pods, pod(mirror+owner("a", a), "a", `,"serviceAccountName":"robot-a"`), 403, `node "a" can not create pods that reference serviceaccounts`},
		{"POST", pods, pod(mirror+owner("a", a), "a", ""), 201, ""},
		{"PATCH", pods + "/on-a", `{"metadata":{"labels":{"x":"y"}}}`, 403, ""},
		{"PATCH", pods + "/on-a/status", `{"metadata":{"labels":{"x":"y"}}}`, 403, `node "a" cannot update labels through pod status`},
		{"PATCH", pods + "/on-a/status", `{"status":{"phase":"Running"}}`, 200, ""},
		{"PATCH", pods + "/on-b/status", `{"status":{"phase":"Running"}}`, 403, `node "a" can only update pod status for pods with spec.nodeName set to itself`},
		{"POST", pods + "/on-b/eviction", eviction("on-b"), 403, `node a can only evict pods with spec.nodeName set to itself`},
		{"POST", pods + "/on-a/eviction?dryRun=All", eviction("on-a"), 201, ""},
		{"DELETE", pods + "/on-b", `{"gracePeriodSeconds":0}`, 403, `node "a" can only delete pods with spec.nodeName set to itself`},
		{"DELETE", pods + "/new", `{"gracePeriodSeconds":0}`, 200, ""},
	} {
		r.check(t, h, kubelet("a"))
	}
}

// A kubelet gets tokens only for Pods on its node, for audiences that these request or that it is allowed to use.
func TestKubeletsGetTokensOfTheirPods(t *testing.T) {
	h, uid := kubelets(t)
	const accounts, pods = "/api/v1/namespaces/default/serviceaccounts/robot-", "/api/v1/namespaces/default/pods/on-"
	bound := func(pod, uid, audiences string) string {
		return fmt.Sprintf(`{"spec":{"audiences":[%s],"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":"on-%s","uid":"%s"}}}`, audiences, pod, uid)
	}
	a, b := uid(pods+"a"), uid(pods+"b")
	other := request{"POST", accounts + "a/token", bound("a", a, `"other"`), 403, `is not authorized to request tokens for audience "other"`}
	for _, r := range []request{
		{"POST", accounts + "a/token", `{"spec":{"audiences":["vault"]}}`, 403, "node requested token not bound to a pod"},
		{"POST", accounts + "a/token", bound("a", "other", `"vault"`), 403, "the UID in the bound object reference (other) does not match the UID in record"},
		{"POST", accounts + "a/token", bound("b", b, `"vault"`), 403, "node requested token bound to a pod scheduled on a different node"},
		{"POST", accounts + "b/token", bound("b", b, `"vault"`), 403, "no relationship found between node 'a' and this object"},
		{"POST", accounts + "a/token", bound("a", a, `"vault","other"`), 403, "node may only request 0 or 1 audiences"},
		other,
		{"POST", accounts + "a/token", bound("a", a, `"vault"`), 201, `"token":"t"`},
		{"POST", accounts + "a/token", bound("a", a, `"store"`), 201, ""}, // its CSI driver requests it
	} {
		r.check(t, h, kubelet("a"))
	}
	must(t, h, admin, "POST", rbacPath+"clusterroles", role("ClusterRole", "others", `{"apiGroups":[""],"resources":["other"],"verbs":["request-serviceaccounts-token-audience"]}`))
	must(t, h, admin, "POST", rbacPath+"clusterrolebindings", bindingOf("ClusterRoleBinding", "others", "ClusterRole", "others", "system:node:a"))
	other.code, other.message = 201, ""
	other.check(t, h, kubelet("a"))
}
