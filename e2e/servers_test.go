package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/rowlock/rowlock/e2e/harness"
)

// TestTwoServers runs two servers on one database. Writes through one are seen on the other, in order and once; one kubeconfig works with both; when
// one is killed, the other goes on, takes over the controllers, and is the only endpoint.
func TestTwoServers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	url, err := postgresURL()
	if err != nil {
		t.Fatal(err)
	}
	schema := unique("Two servers")
	start := func(address string) (*harness.Server, kubernetes.Interface) {
		server := startServer(t, harness.RowlockOptions{Datastore: url, Schema: schema, Args: []string{"--advertise-address", address}})
		return server, clientFor(t, server)
	}
	server, client := start("192.0.2.1")
	first := awaitHolder(ctx, t, client, "")
	other, otherClient := start("192.0.2.2")
	config, err := server.Config()
	if err != nil {
		t.Fatal(err)
	}
	config.Host = other.URL
	crossed, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := crossed.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{}); err != nil {
		t.Errorf("the other server's kubeconfig: %v", err)
	}
	awaitEndpoints(ctx, t, client, "192.0.2.1", "192.0.2.2")

	w, err := otherClient.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{ResourceVersion: "1", FieldSelector: "metadata.name!=kube-root-ca.crt"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	last := int64(0)
	for i := range 20 {
		written := client
		if i%2 == 1 {
			written = otherClient
		}
		c, err := written.CoreV1().ConfigMaps("default").Create(ctx, configMap(unique("c"), "1"), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		e := <-w.ResultChan()
		seen, ok := e.Object.(*corev1.ConfigMap)
		if e.Type != watch.Added || !ok || seen.UID != c.UID || revision(t, seen.ResourceVersion) <= last {
			t.Fatalf("event %d is %v %v, want that %s was added", i, e.Type, e.Object, c.Name)
		}
		last = revision(t, seen.ResourceVersion)
		if _, err := otherClient.CoreV1().ConfigMaps("default").Get(ctx, c.Name, metav1.GetOptions{}); err != nil {
			t.Errorf("read after a write elsewhere: %v", err)
		}
	}

	server.Kill() // it ran the controllers
	doomed := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: unique("doomed")}}
	namespaces := otherClient.CoreV1().Namespaces()
	if _, err := namespaces.Create(ctx, doomed, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := namespaces.Delete(ctx, doomed.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(ctx, t, "the namespace to be gone", func() (bool, error) {
		_, err := namespaces.Get(ctx, doomed.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	awaitHolder(ctx, t, otherClient, first)
	awaitEndpoints(ctx, t, otherClient, "192.0.2.2")
	if err := other.Stop(); err != nil {
		t.Error(err)
	}
}

// awaitHolder waits until the Lease names another server than other as the one with the controllers, and returns it.
func awaitHolder(ctx context.Context, t *testing.T, client kubernetes.Interface, other string) (holder string) {
	t.Helper()
	await(ctx, t, "another holder of the lease than "+other, func() (bool, error) {
		lease, err := client.CoordinationV1().Leases("kube-system").Get(ctx, "rowlock-controllers", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err == nil {
			holder = *lease.Spec.HolderIdentity
		}
		return holder != "" && holder != other, err
	})
	return holder
}

// awaitEndpoints waits until the Service of the API has endpoints at exactly these addresses.
func awaitEndpoints(ctx context.Context, t *testing.T, client kubernetes.Interface, addresses ...string) {
	t.Helper()
	await(ctx, t, fmt.Sprintf("endpoints at %v", addresses), func() (bool, error) {
		found := sets.New[string]()
		slices, err := client.DiscoveryV1().EndpointSlices("default").List(ctx,
			metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=kubernetes"})
		if err != nil {
			return false, err
		}
		for _, slice := range slices.Items {
			for _, endpoint := range slice.Endpoints {
				found.Insert(endpoint.Addresses...)
			}
		}
		//nolint:staticcheck // Endpoints are deprecated, and still there
		endpoints, err := client.CoreV1().Endpoints("default").Get(ctx, "kubernetes", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		older := sets.New[string]()
		for _, subset := range endpoints.Subsets {
			for _, address := range subset.Addresses {
				older.Insert(address.IP)
			}
		}
		return found.Equal(sets.New(addresses...)) && older.Equal(found), nil
	})
}

// await polls until a condition holds.
func await(ctx context.Context, t *testing.T, what string, so wait.ConditionFunc) {
	t.Helper()
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 2*patience, true, func(context.Context) (bool, error) { return so() })
	if err != nil {
		t.Fatalf("waited for %s: %v", what, err)
	}
}
