package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Objects whose backup is out of date are restored nevertheless, and stay: the token of a ServiceAccount that has another uid now, a Pod whose QoS
// class differs under a present LimitRange, a namespace that was being deleted.
func TestRestoreWhatIsOfItsMoment(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	p := start(t, "--data-dir", dir)
	client := p.client(t)
	const namespaces = "/api/v1/namespaces"
	send(t, client, "POST", namespaces, `{"metadata":{"name":"stuck"}}`)
	send(t, client, "POST", namespaces+"/stuck/configmaps", `{"metadata":{"name":"held","finalizers":["example.com/hold"]}}`)
	send(t, client, "DELETE", namespaces+"/stuck", "")
	send(t, client, "POST", namespaces, `{"metadata":{"name":"shop"}}`)
	send(t, client, "POST", namespaces+"/shop/serviceaccounts", `{"metadata":{"name":"bot"}}`)
	send(t, client, "POST", namespaces+"/shop/secrets", `{"metadata":{"name":"token","annotations":{"kubernetes.io/service-account.name":"bot"}},"type":"kubernetes.io/service-account-token"}`)
	send(t, client, "POST", namespaces+"/shop/pods", `{"metadata":{"name":"p"},"spec":{"serviceAccountName":"bot","containers":[{"name":"c","image":"nginx"}]}}`)
	before := tokenOf(t, client)
	file := filepath.Join(t.TempDir(), "backup")
	runs(t, "backup", file, "--data-dir", dir)

	send(t, client, "PATCH", namespaces+"/stuck/configmaps/held", `{"metadata":{"finalizers":null}}`)
	send(t, client, "DELETE", namespaces+"/shop", "")
	for _, name := range []string{"stuck", "shop"} {
		until(t, name+" is gone", func() bool {
			_, err := client.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
	}
	send(t, client, "POST", namespaces, `{"metadata":{"name":"shop"}}`)
	send(t, client, "POST", namespaces+"/shop/limitranges", `{"metadata":{"name":"l"},"spec":{"limits":[{"type":"Container","default":{"cpu":"500m"}}]}}`)
	runs(t, "restore", file, "--data-dir", dir, "--namespace", "shop", "--namespace", "stuck")
	if after := tokenOf(t, client); after == before {
		t.Error("the token is that of the ServiceAccount of before")
	}
	pod, err := client.CoreV1().Pods("shop").Get(t.Context(), "p", metav1.GetOptions{})
	if err != nil || pod.Status.QOSClass != corev1.PodQOSBurstable {
		t.Errorf("the Pod is %v, %v", pod.Status.QOSClass, err)
	}
	stuck, err := client.CoreV1().Namespaces().Get(t.Context(), "stuck", metav1.GetOptions{})
	if err != nil || stuck.Status.Phase != corev1.NamespaceActive {
		t.Errorf("the namespace is %v, %v", stuck.Status.Phase, err)
	}
	runs(t, "restore", file, "--data-dir", dir, "--object", "secret/shop/token")
	p.end()
}

// Each restored object refers to the present owners, also where these are restored after it, and the garbage collector keeps it.
func TestRestoreOfLaterOwners(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	p := start(t, "--data-dir", dir)
	defer p.end()
	client := p.client(t)
	const (
		core        = "/api/v1/namespaces"
		widgets     = "/apis/example.com/v1/namespaces/shop/widgets"
		deployments = "/apis/apps/v1/namespaces/shop/deployments"
		definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	)
	is := func(path, field string) string {
		t.Helper()
		answer, err := client.CoreV1().RESTClient().Get().AbsPath(path).DoRaw(t.Context())
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		return gjson.GetBytes(answer, field).Str
	}
	owned := func(name, kind, version, owner, path string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q,"ownerReferences":[{"apiVersion":%q,"kind":%q,"name":%q,"uid":%q}]}`, name, version, kind, owner, is(path, "metadata.uid"))
	}
	for _, plural := range []string{"widgets", "gadgets"} { // gadgets stay: their version is served before widgets are
		send(t, client, "POST", definitions, strings.ReplaceAll(`{"metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
"names":{"plural":"widgets","kind":"Kwidgets"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`, "widgets", plural))
	}
	send(t, client, "POST", core, `{"metadata":{"name":"shop"}}`)
	send(t, client, "POST", widgets, `{"apiVersion":"example.com/v1","kind":"Kwidgets","metadata":{"name":"w"}}`)
	send(t, client, "POST", deployments, owned("d", "Kwidgets", "example.com/v1", "w", widgets+"/w")+
		`,"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`)
	send(t, client, "POST", core+"/shop/serviceaccounts", owned("of-w", "Kwidgets", "example.com/v1", "w", widgets+"/w")+"}")
	send(t, client, "POST", core+"/shop/serviceaccounts", owned("of-d", "Deployment", "apps/v1", "d", deployments+"/d")+"}")
	send(t, client, "POST", core+"/shop/pods", owned("p", "Deployment", "apps/v1", "d", deployments+"/d")+`,"spec":{"serviceAccountName":"of-d","containers":[{"name":"c","image":"i"}]}}`)
	send(t, client, "POST", core+"/shop/configmaps", owned("of-p", "Pod", "v1", "p", core+"/shop/pods/p")+"}")
	owners := map[string]string{deployments + "/d": widgets + "/w", core + "/shop/serviceaccounts/of-w": widgets + "/w", core + "/shop/serviceaccounts/of-d": deployments + "/d",
		core + "/shop/pods/p": deployments + "/d", core + "/shop/configmaps/of-p": core + "/shop/pods/p"}
	file := filepath.Join(t.TempDir(), "backup")
	runs(t, "backup", file, "--data-dir", dir)
	args := []string{"restore", file, "--data-dir", dir, "--namespace", "shop", "--object", "crd/widgets.example.com"}
	restored := func() {
		t.Helper()
		if out := runs(t, args...); strings.Contains(out, "is not there") {
			t.Errorf("it says\n%s", out)
		}
		for path, owner := range owners {
			if got, want := is(path, "metadata.ownerReferences.0.uid"), is(owner, "metadata.uid"); got != want {
				t.Errorf("%s belongs to %q and not to %s, %q", path, got, owner, want)
			}
		}
		for line := range strings.Lines(runs(t, args...)) {
			if strings.Contains(line, "/shop/") && !strings.HasSuffix(line, ": unchanged\n") {
				t.Errorf("once more it says %s", line)
			}
		}
	}
	send(t, client, "DELETE", core+"/shop", "")
	send(t, client, "DELETE", definitions+"/widgets.example.com", "")
	until(t, "the namespace and the definition are gone", func() bool {
		for _, path := range []string{core + "/shop", definitions + "/widgets.example.com"} {
			if err := client.CoreV1().RESTClient().Get().AbsPath(path).Do(t.Context()).Error(); !apierrors.IsNotFound(err) {
				return false
			}
		}
		return true
	})
	restored()
	for _, name := range []string{"of-w", "of-d"} { // the owners are there
		send(t, client, "DELETE", core+"/shop/serviceaccounts/"+name, "")
	}
	restored()
}

// Objects that a quota counts, and that a LimitRange would not allow any more, are restored before them, and the quota counts them.
func TestRestoreUnderQuotas(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	p := start(t, "--data-dir", dir)
	defer p.end()
	client := p.client(t)
	const namespaces = "/api/v1/namespaces"
	used := func(want string) {
		t.Helper()
		until(t, "the quota has counted "+want+" services", func() bool {
			quota, err := client.CoreV1().ResourceQuotas("shop").Get(t.Context(), "quota", metav1.GetOptions{})
			services := quota.Status.Used[corev1.ResourceServices]
			return err == nil && services.String() == want
		})
	}
	send(t, client, "POST", namespaces, `{"metadata":{"name":"shop"}}`)
	send(t, client, "POST", namespaces+"/shop/resourcequotas", `{"metadata":{"name":"quota"},"spec":{"hard":{"services":"1","pods":"1"}}}`)
	used("0")
	send(t, client, "POST", namespaces+"/shop/services", `{"metadata":{"name":"web"},"spec":{"ports":[{"port":80}]}}`)
	send(t, client, "POST", namespaces+"/shop/pods", `{"metadata":{"name":"web"},"spec":{"containers":[{"name":"c","image":"nginx","resources":{"limits":{"cpu":"2"}}}]}}`)
	send(t, client, "POST", namespaces+"/shop/limitranges", `{"metadata":{"name":"small"},"spec":{"limits":[{"type":"Container","max":{"cpu":"1"}}]}}`)
	used("1")
	file := filepath.Join(t.TempDir(), "backup")
	runs(t, "backup", file, "--data-dir", dir)
	send(t, client, "DELETE", namespaces+"/shop", "")
	until(t, "the namespace is gone", func() bool {
		_, err := client.CoreV1().Namespaces().Get(t.Context(), "shop", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	runs(t, "restore", file, "--data-dir", dir, "--namespace", "shop")
	used("1")
	send(t, client, "DELETE", namespaces+"/shop/services/web", "")
	used("0")
	runs(t, "restore", file, "--data-dir", dir, "--object", "service/shop/web", "--object", "quota/shop/quota")
	used("1")
}

// A Service whose address and port are taken is restored with others, which is reported.
func TestRestoreOfTakenAddresses(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, empty places) {
		place := empty(t)
		h := startHistorian(t, place)
		defer h.end()
		const services = "/api/v1/namespaces/shop/services"
		send(t, h.client, "POST", services, `{"metadata":{"name":"web"},"spec":{"type":"NodePort","ports":[{"name":"a","port":80},{"name":"b","port":81}]}}`)
		web := func() *corev1.Service {
			t.Helper()
			s, err := h.client.CoreV1().Services("shop").Get(t.Context(), "web", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		was := web()
		file := filepath.Join(t.TempDir(), "backup")
		runs(t, append([]string{"backup", file}, place.args()...)...)
		send(t, h.client, "DELETE", services+"/web", "")
		send(t, h.client, "POST", services, fmt.Sprintf(`{"metadata":{"name":"other"},"spec":{"type":"NodePort","clusterIP":%q,"ports":[{"port":80,"nodePort":%d}]}}`,
			was.Spec.ClusterIP, was.Spec.Ports[1].NodePort))
		for _, args := range [][]string{{"undelete", "service/web", "-n", "shop"}, {"restore", file, "--object", "service/shop/web"}} {
			out := h.does(t, args...)
			if is := web(); !strings.Contains(out, "services/shop/web: created, with another address or node port: ") || !strings.Contains(out, was.Spec.ClusterIP) ||
				is.Spec.ClusterIP == was.Spec.ClusterIP || is.Spec.Ports[1].NodePort == was.Spec.Ports[1].NodePort || is.Spec.Ports[1].NodePort == 0 || is.Spec.Ports[0].NodePort != was.Spec.Ports[0].NodePort {
				t.Errorf("%q: %s%v", args, out, is.Spec)
			}
			had := web().Spec.ClusterIP
			if out := h.does(t, "restore", file, "--object", "service/shop/web"); !strings.Contains(out, "updated, with another") || web().Spec.ClusterIP != had {
				t.Errorf("once more: %s%v", out, web().Spec)
			}
			send(t, h.client, "DELETE", services+"/web", "")
		}
	})
}

// tokenOf waits until the controller has put a token for the present ServiceAccount into the Secret.
func tokenOf(t *testing.T, client kubernetes.Interface) (token string) {
	t.Helper()
	account, err := client.CoreV1().ServiceAccounts("shop").Get(t.Context(), "bot", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "there is a token", func() bool {
		s, err := client.CoreV1().Secrets("shop").Get(t.Context(), "token", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		token = string(s.Data[corev1.ServiceAccountTokenKey])
		return token != "" && s.Annotations[corev1.ServiceAccountUIDKey] == string(account.UID)
	})
	return token
}

// until waits for a result of controllers.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it is not so: %s", what)
		}
	}
}
