package controllers_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/controlplane/controllers"
)

// serve makes a server on the store, to which the clients of controllers belong.
func (c *cluster) serve() {
	c.Helper()
	s, err := server.New(server.Config{Registry: c.registry, Store: c.store, Pipeline: c.pipeline, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		DisableAdmissionPlugins: []string{"ServiceAccount"}})
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(s.Close)
	c.change = append(c.change, func(o *controllers.Config) {
		o.Client = func(who resources.Actor) (kubernetes.Interface, error) {
			return s.Client(who.Info, "kube-controller-manager")
		}
	})
}

// decode reads an object into a type of k8s.io/api.
func decode[T any](t testing.TB, o *resources.Object) *T {
	t.Helper()
	if o == nil {
		t.Fatal("there is no such object")
	}
	obj := new(T)
	if err := json.Unmarshal(o.Data, obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

// authorities are a controllers.Trust that can be changed.
type authorities struct {
	bundle  string
	changed chan struct{}
}

// Every namespace has the authorities, whatever users and time do to them.
func TestRootCA(t *testing.T) {
	c := newCluster(t)
	c.serve()
	next := make(chan authorities, 1)
	first := authorities{"first", make(chan struct{})}
	now := first
	c.change = append(c.change, func(o *controllers.Config) {
		o.Enabled = []string{controllers.RootCA}
		o.Trust = &controllers.Trust{
			Changed: func() <-chan struct{} { // comes first, by one goroutine
				select {
				case now = <-next:
				default:
				}
				return now.changed
			},
			Bundle: func() []byte { return []byte(now.bundle) }}
	})
	stop := c.start()
	in := func(namespace, bundle string) {
		t.Helper()
		c.until("the ConfigMap with "+bundle, resources.Key{Resource: "configmaps", Namespace: namespace, Name: "kube-root-ca.crt"}, func(o *resources.Object) bool {
			if o == nil {
				return false
			}
			m := decode[corev1.ConfigMap](t, o)
			return len(m.Data) == 1 && m.Data["ca.crt"] == bundle && m.Annotations["kubernetes.io/description"] != ""
		})
	}
	for _, namespace := range []string{"default", "ns"} {
		in(namespace, "first")
	}
	key := resources.Key{Resource: "configmaps", Namespace: "ns", Name: "kube-root-ca.crt"}
	c.namespace("later")
	in("later", "first")
	c.delete(c.get(key), metav1.DeletePropagationBackground)
	in("ns", "first")
	c.edit(c.get(key), func(m metav1.Object) { m.(*core.ConfigMap).Data = map[string]string{"ca.crt": "wrong", "further": ""} })
	in("ns", "first")

	next <- authorities{"second", make(chan struct{})}
	close(first.changed)
	in("ns", "second")
	in("later", "second")
	stop()
	c.delete(c.get(key), metav1.DeletePropagationBackground)
	c.start() // of another server, which has the second bundle
	in("ns", "second")
}
