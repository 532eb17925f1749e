package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rowlock/rowlock/e2e/harness"
)

// TestAggregatedAPIOfTwoServers runs two servers on one database. An APIService that was written through one is in force on the other with the next
// request. The server behind it knows both as its front proxy. When the server that checks its availability is killed, the other takes over.
func TestAggregatedAPIOfTwoServers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	url, err := postgresURL()
	if err != nil {
		t.Fatal(err)
	}
	schema := unique("aggregated")
	start := func() (*harness.Server, kubernetes.Interface) {
		server := startServer(t, harness.RowlockOptions{Datastore: url, Schema: schema})
		return server, clientFor(t, server)
	}
	first, client := start()
	awaitHolder(ctx, t, client, "")
	_, other := start()

	group := unique("e2e") + ".example.com"
	port, bundle := extensionServerOf(t, client, group, "fruits.default.svc")
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "fruits"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}}
	if _, err := client.CoreV1().Services("default").Create(ctx, service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const apiServices = "/apis/apiregistration.k8s.io/v1/apiservices"
	fruits := "/apis/" + group + "/v1/namespaces/default/fruits"
	get := func(of kubernetes.Interface, path string) (string, error) {
		data, err := of.CoreV1().RESTClient().Get().AbsPath(path).DoRaw(ctx)
		return string(data), err
	}
	if _, err := get(other, fruits); !apierrors.IsNotFound(err) {
		t.Errorf("before anybody serves it: %v", err)
	}
	body := fmt.Sprintf(`{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.%s"},"spec":{"group":%q,"version":"v1",
		"groupPriorityMinimum":1000,"versionPriority":10,"caBundle":%q,"service":{"namespace":"default","name":"fruits","port":%d}}}`, group, group, bundle, port)
	if err := client.CoreV1().RESTClient().Post().AbsPath(apiServices).SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(ctx).Error(); err != nil {
		t.Fatal(err)
	}
	if _, err := get(other, fruits); apierrors.IsNotFound(err) {
		t.Error("the other server does not know it")
	}
	condition := func(of kubernetes.Interface, text string) {
		t.Helper()
		await(ctx, t, text, func() (bool, error) {
			is, err := get(of, apiServices+"/v1."+group)
			return strings.Contains(is, text), err
		})
	}
	condition(client, `"reason":"Passed"`)
	for name, c := range map[string]kubernetes.Interface{"first": client, "other": other} {
		if list, err := get(c, fruits); err != nil || !strings.Contains(list, `"name":"of-kubernetes-admin"`) {
			t.Errorf("the %s server: %v %s", name, err, list)
		}
		await(ctx, t, "discovery of the "+name+" server", func() (bool, error) {
			list, err := get(c, "/apis/"+group+"/v1")
			return strings.Contains(list, `"fruits"`), err
		})
	}

	first.Kill() // it checked the availability
	if err := other.CoreV1().Services("default").Delete(ctx, "fruits", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	condition(other, `"reason":"ServiceNotFound"`)
	if _, err := get(other, fruits); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("while there is no Service: %v", err)
	}
	if err := other.CoreV1().RESTClient().Delete().AbsPath(apiServices + "/v1." + group).Do(ctx).Error(); err != nil {
		t.Fatal(err)
	}
	if _, err := get(other, fruits); apierrors.ReasonForError(err) != metav1.StatusReasonNotFound {
		t.Errorf("when nobody serves it any more: %v (want %d)", err, http.StatusNotFound)
	}
}
