package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
