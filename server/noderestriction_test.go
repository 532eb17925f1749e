package server_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"

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
	must(t, h, admin, "POST", "/apis/resource.k8s.io/v1/resourceslices", strings.Replace(slice("b"), `"b"`, `"of-b"`, 1))
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
		{"DELETE", "/apis/resource.k8s.io/v1/resourceslices/of-b", ``, 403, "no relationship found between node 'a' and this object"},
		{"DELETE", "/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.nodeName=b", ``, 403, "can only list/watch/deletecollection resourceslices with nodeName field selector"},
		{"DELETE", "/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.nodeName=a", ``, 200, ""},
		{"PATCH", "/apis/storage.k8s.io/v1/csinodes/a/status", `{"status":{}}`, 403, "CSINode status access requires CSIVolumeHealth feature"},
		{"PATCH", "/api/v1/namespaces/default/persistentvolumeclaims/claim/status", `{"status":{"capacity":{"storage":"1Gi"},"conditions":[{"type":"Resizing","status":"True"}]}}`, 200, ""},
		{"PATCH", "/api/v1/namespaces/default/persistentvolumeclaims/claim/status", `{"metadata":{"labels":{"x":"y"}}}`, 403, `node "a" is not allowed to update fields other than status.quantity and status.conditions`},
		{"PATCH", "/api/v1/namespaces/default/persistentvolumeclaims/claim/status", `{"status":{"phase":"Lost"}}`, 403, `node "a" is not allowed to update fields other than status.quantity and status.conditions`},
		{"PATCH", "/api/v1/namespaces/default/persistentvolumeclaims/claim", `{"metadata":{"labels":{"x":"y"}}}`, 403, "can only get individual resources of this type"},
		{"PATCH", "/api/v1/namespaces/default/persistentvolumeclaims/other/status", `{"status":{"capacity":{"storage":"1Gi"}}}`, 403, "no relationship found between node 'a' and this object"},
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
		{"POST", pods, pod(mirror+strings.Replace(owner("a", a), "[", `[{"apiVersion":"v1","kind":"Node","name":"b","uid":"u"},`, 1), "a", ""), 403,
			`node "a" can only create pods with a single owner reference set to itself`},
		{"POST", pods, pod(mirror+strings.Replace(owner("a", a), `,"controller":true`, "", 1), "a", ""), 403, `node "a" can only create pods with a controller owner reference set to itself`},
		{"POST", pods, pod(mirror+strings.Replace(owner("a", a), "true", "false", 1), "a", ""), 403, `node "a" can only create pods with a controller owner reference set to itself`},
		{"POST", pods, pod(mirror+strings.Replace(owner("a", a), "true", `true,"blockOwnerDeletion":true`, 1), "a", ""), 403, `node "a" must not set blockOwnerDeletion on an owner reference`},
		{"POST", pods + "?dryRun=All", pod(mirror+strings.Replace(owner("a", a), "true", `true,"blockOwnerDeletion":false`, 1), "a", ""), 201, ""},
		{"POST", pods, pod(mirror+owner("a", a), "a", `,"volumes":[{"name":"v","secret":{"secretName":"s"}}]`), 403, `node "a" can not create pods that reference secrets`},
		{"POST", pods, pod(mirror+owner("a", a), "a", `,"serviceAccountName":"robot-a"`), 403, `node "a" can not create pods that reference serviceaccounts`},
		{"POST", pods, pod(mirror+owner("a", a), "a", ""), 201, ""},
		{"PATCH", pods + "/on-a", `{"metadata":{"labels":{"x":"y"}}}`, 403, ""},
		{"PATCH", pods + "/on-a/status", `{"metadata":{"labels":{"x":"y"}}}`, 403, `node "a" cannot update labels through pod status`},
		{"PATCH", pods + "/on-a/status", `{"status":{"phase":"Running"}}`, 200, ""},
		{"PATCH", pods + "/on-a/status", `{"status":{"resourceClaimStatuses":[{"name":"c","resourceClaimName":"r"}]}}`, 403, `node "a" cannot update resource claim statues`},
		{"PATCH", pods + "/on-a/status", `{"status":{"extendedResourceClaimStatus":{"resourceClaimName":"r","requestMappings":[{"containerName":"c","resourceName":"example.com/x","requestName":"q"}]}}}`, 403,
			`node "a" cannot update extended resource claim status`},
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
	must(t, h, admin, "POST", "/apis/storage.k8s.io/v1/csidrivers", `{"metadata":{"name":"inline.example.com"},"spec":{"tokenRequests":[{"audience":"direct"}],"volumeLifecycleModes":["Ephemeral"]}}`)
	must(t, h, admin, "POST", "/api/v1/namespaces/default/persistentvolumeclaims", `{"metadata":{"name":"on-ephemeral-v"},"spec":{"volumeName":"pv",
		"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`)
	for name, volume := range map[string]string{"inline": `"csi":{"driver":"inline.example.com"}`, "ephemeral": `"ephemeral":{"volumeClaimTemplate":{"spec":
		{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}}`} {
		must(t, h, admin, "POST", "/api/v1/namespaces/default/pods", `{"metadata":{"name":"on-`+name+`"},"spec":{"nodeName":"a","serviceAccountName":"robot-a","automountServiceAccountToken":false,
			"containers":[{"name":"c","image":"i"}],"volumes":[{"name":"v",`+volume+`}]}}`)
	}
	a, b, inline, lasting := uid(pods+"a"), uid(pods+"b"), uid(pods+"inline"), uid(pods+"ephemeral")
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
		{"POST", accounts + "a/token", bound("a", "", `"vault"`), 403, "node requested token with a pod binding without a uid"},
		{"POST", accounts + "a/token", bound("none", a, `"vault"`), 404, `pod "on-none" not found`},
		{"POST", accounts + "a/token", bound("inline", inline, `"direct"`), 201, ""},
		{"POST", accounts + "a/token", bound("inline", inline, `"store"`), 403, `is not authorized to request tokens for audience "store"`},
		{"POST", accounts + "a/token", bound("ephemeral", lasting, `"store"`), 201, ""},
		{"POST", accounts + "a/token", bound("ephemeral", lasting, `"direct"`), 403, `is not authorized to request tokens for audience "direct"`},
	} {
		r.check(t, h, kubelet("a"))
	}
	must(t, h, admin, "POST", rbacPath+"clusterroles", role("ClusterRole", "others", `{"apiGroups":[""],"resources":["other"],"verbs":["request-serviceaccounts-token-audience"]}`))
	must(t, h, admin, "POST", rbacPath+"clusterrolebindings", bindingOf("ClusterRoleBinding", "others", "ClusterRole", "others", "system:node:a"))
	other.code, other.message = 201, ""
	other.check(t, h, kubelet("a"))
}

// A kubelet requests certificates for Pods on its node, by the ServiceAccounts that they have, from the signers of their volumes or those that it is
// allowed to use.
func TestKubeletsRequestCertificatesOfTheirPods(t *testing.T) {
	h, uid := kubelets(t)
	const pods, requests = "/api/v1/namespaces/default/pods", "/apis/certificates.k8s.io/v1/namespaces/default/podcertificaterequests"
	const mounted = `{"name":"v","projected":{"sources":[{"podCertificate":{"signerName":"example.com/mounted","keyType":"ED25519","credentialBundlePath":"p"}}]}}`
	for name, meta := range map[string]string{"certified": "", "mirror": `,"annotations":{"kubernetes.io/config.mirror":"x"}`} {
		must(t, h, admin, "POST", pods, `{"metadata":{"name":"`+name+`"`+meta+`},"spec":{"nodeName":"a","serviceAccountName":"robot-a","automountServiceAccountToken":false,
			"containers":[{"name":"c","image":"i"}],"volumes":[`+mounted+`]}}`)
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	spec := map[string]any{"signerName": "example.com/mounted", "podName": "certified", "podUID": uid(pods + "/certified"), "nodeName": "a", "nodeUID": uid("/api/v1/nodes/a"),
		"serviceAccountName": "robot-a", "serviceAccountUID": uid("/api/v1/namespaces/default/serviceaccounts/robot-a"), "maxExpirationSeconds": 86400, "stubPKCS10Request": der}
	asks := func(code int, message string, fields ...string) {
		t.Helper()
		changed := maps.Clone(spec)
		for i := 0; i < len(fields); i += 2 {
			changed[fields[i]] = fields[i+1]
		}
		body, err := json.Marshal(map[string]any{"metadata": map[string]string{"generateName": "r-"}, "spec": changed})
		if err != nil {
			t.Fatal(err)
		}
		request{"POST", requests, string(body), code, message}.check(t, h, kubelet("a"))
	}
	asks(201, "")
	asks(403, `PodCertificateRequest.Spec.NodeName="b", which is not the requesting node "a"`, "nodeName", "b")
	asks(500, `PodCertificateRequest for pod "default/certified" names node UID "u", inconsistent with the running node (`, "nodeUID", "u")
	asks(500, `while retrieving pod "default/none" named in the PodCertificateRequest: pod "none" not found`, "podName", "none")
	asks(500, `PodCertificateRequest for pod "default/certified" contains pod UID ("u") which differs from running pod `, "podUID", "u")
	asks(403, `pod "default/on-b" is not running on node "a" named in the PodCertificateRequest`, "podName", "on-b", "podUID", uid(pods+"/on-b"))
	asks(403, `pod "default/mirror" is a mirror pod`, "podName", "mirror", "podUID", uid(pods+"/mirror"))
	asks(403, `PodCertificateRequest for pod "default/certified" contains serviceAccountName ("robot-b") that differs from running pod ("robot-a")`, "serviceAccountName", "robot-b")
	asks(500, `PodCertificateRequest for pod "default/certified" names service account UID "u", which differs from the running service account (`, "serviceAccountUID", "u")
	const other = "example.com/other"
	asks(403, `pod "default/certified" does not mount a podCertificate projected volume for signer "example.com/other"`, "signerName", other)
	must(t, h, admin, "POST", rbacPath+"clusterroles", role("ClusterRole", "signers", `{"apiGroups":["certificates.k8s.io"],"resources":["example.com:other"],"verbs":["request-serviceaccounts-podcertificate-signer"],"resourceNames":["robot-a"]}`))
	must(t, h, admin, "POST", rbacPath+"clusterrolebindings", bindingOf("ClusterRoleBinding", "signers", "ClusterRole", "signers", "system:node:a"))
	asks(201, "", "signerName", other)
	asks(403, `does not mount a podCertificate projected volume for signer "example.com/another"`, "signerName", "example.com/another")
	for _, r := range []request{
		{"GET", requests + "?fieldSelector=spec.nodeName=a", "", 200, ""},
		{"GET", requests + "?fieldSelector=spec.nodeName=b", "", 403, "can only list/watch podcertificaterequests with nodeName field selector"},
		{"DELETE", requests + "/r", "", 403, "nodes may not delete podcertificaterequests"},
		{"PATCH", requests + "/r/status", `{}`, 403, "nodes may not access the status subresource of PodCertificateRequests"},
	} {
		r.check(t, h, kubelet("a"))
	}
}

// With the gate CSIVolumeHealth a kubelet writes the status of its CSINode, and nothing else through it.
func TestKubeletsReportVolumeHealth(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.CSIVolumeHealth, true)
	h, _ := kubelets(t)
	const csiNodes = "/apis/storage.k8s.io/v1/csinodes"
	for _, node := range []string{"a", "b"} {
		must(t, h, kubelet(node), "POST", csiNodes, `{"metadata":{"name":"`+node+`"},"spec":{"drivers":[]}}`)
	}
	for _, r := range []request{
		{"PATCH", csiNodes + "/a/status", `{"status":{}}`, 200, ""},
		{"PATCH", csiNodes + "/a/status", `{"spec":{"drivers":[{"name":"d.example.com","nodeID":"x"}]}}`, 403, `node "a" is not allowed to modify CSINode spec via status`},
		{"PATCH", csiNodes + "/b/status", `{"status":{}}`, 403, "can only access CSINode with the same name as the requesting node"},
	} {
		r.check(t, h, kubelet("a"))
	}
}
