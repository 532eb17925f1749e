package controllers_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/apis/certificates"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/controlplane/controllers"
)

// serve creates a server on the store for the clients of controllers.
func (c *cluster) serve() {
	c.Helper()
	s, err := server.New(server.Config{Registry: c.registry, Store: c.store, Pipeline: c.pipeline, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		DisableAdmissionPlugins: []string{"ServiceAccount"}})
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(s.Close)
	c.server = s
	c.change = append(c.change, func(o *controllers.Config) {
		o.Client = func(who resources.Actor) (kubernetes.Interface, error) {
			return s.Client(who.Info, "kube-controller-manager")
		}
	})
}

// decode decodes an object into a type of k8s.io/api.
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

// put stores an object as it is, whatever the rules of its type.
func (c *cluster) put(resource string, obj metav1.Object) *resources.Object {
	c.Helper()
	t := c.typeOf(resource)
	draft, err := t.NewDraft(c.Context(), obj.(runtime.Object))
	if err != nil {
		c.Fatal(err)
	}
	stored, err := c.store.Commit(c.ctx, resources.Write{Op: resources.Create, Key: t.KeyOf(obj.GetNamespace(), obj.GetName()), Draft: draft})
	if err != nil {
		c.Fatal(err)
	}
	return stored[0]
}

// authorities are a controllers.Trust that can be changed.
type authorities struct {
	bundle  string
	changed chan struct{}
}

// trust starts a controller that publishes the authorities that were sent last.
func (c *cluster) trust(controller string, now authorities) (next chan<- authorities) {
	given := make(chan authorities, 1)
	var mu sync.Mutex
	current := func() authorities {
		mu.Lock()
		defer mu.Unlock()
		select {
		case now = <-given:
		default:
		}
		return now
	}
	c.change = append(c.change, func(o *controllers.Config) {
		o.Enabled = []string{controller}
		o.Trust = &controllers.Trust{Changed: func() <-chan struct{} { return current().changed }, Bundle: func() []byte { return []byte(current().bundle) }}
	})
	return given
}

// Every namespace has the authorities, whatever users change, and when the authorities change.
func TestRootCA(t *testing.T) {
	c := newCluster(t)
	c.serve()
	first := authorities{"first", make(chan struct{})}
	next := c.trust(controllers.RootCA, first)
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
	c.start() // as another server, which has the second bundle
	in("ns", "second")
}

// kube-controller-manager publishes a file that may have further certificates, and text. It is left alone where it is in kube-system, too; other
// content is repaired.
func TestRootCAWithFurtherCertificates(t *testing.T) {
	c := newCluster(t)
	c.namespace("kube-system")
	c.serve()
	own := newBundle(t)
	c.trust(controllers.RootCA, authorities{own, make(chan struct{})})
	c.start()
	in := func(namespace, bundle string) {
		t.Helper()
		c.until("the ConfigMap", resources.Key{Resource: "configmaps", Namespace: namespace, Name: "kube-root-ca.crt"}, func(o *resources.Object) bool {
			return o != nil && decode[corev1.ConfigMap](t, o).Data["ca.crt"] == bundle
		})
	}
	publish := func(namespace, bundle string) {
		t.Helper()
		c.edit(c.get(resources.Key{Resource: "configmaps", Namespace: namespace, Name: "kube-root-ca.crt"}), func(m metav1.Object) {
			m.(*core.ConfigMap).Data = map[string]string{"ca.crt": bundle}
		})
	}
	for _, namespace := range []string{"default", "ns", "kube-system"} {
		in(namespace, own)
	}
	for _, theirs := range []string{"# the authority\n" + own, newBundle(t) + own, own + "\n\n"} {
		publish("kube-system", theirs)
		publish("ns", theirs)
		for _, wrong := range []string{newBundle(t), "nothing", own + newBundle(t)} { // handled after the others
			publish("default", wrong)
			in("default", own)
		}
		in("kube-system", theirs)
		in("ns", theirs)
	}
}

// An authority that is taken out of --root-ca-file is taken out of what is published.
func TestRootCAOfWhichOneIsRetired(t *testing.T) {
	c := newCluster(t)
	c.namespace("kube-system")
	c.serve()
	remaining := newBundle(t)
	both := authorities{newBundle(t) + remaining, make(chan struct{})}
	next := c.trust(controllers.RootCA, both)
	c.change = append(c.change, func(o *controllers.Config) { o.Enabled = []string{controllers.RootCA, controllers.TrustBundle} })
	c.start()
	published := func(bundle string) {
		t.Helper()
		for _, namespace := range []string{"ns", "kube-system"} {
			c.until("the ConfigMap", resources.Key{Resource: "configmaps", Namespace: namespace, Name: "kube-root-ca.crt"}, func(o *resources.Object) bool {
				return o != nil && decode[corev1.ConfigMap](t, o).Data["ca.crt"] == bundle
			})
		}
		c.until("the bundle", bundleKey(bundle), func(o *resources.Object) bool { return o != nil })
	}
	published(both.bundle)
	next <- authorities{remaining, make(chan struct{})}
	close(both.changed)
	published(remaining)
	c.until("no other bundle", bundleKey(both.bundle), func(o *resources.Object) bool { return o == nil })
}

// newBundle returns the certificate of a new authority, in PEM.
func newBundle(t *testing.T) string {
	t.Helper()
	files, _ := newAuthority(t)
	data, err := os.ReadFile(files.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// bundleKey is the key of the ClusterTrustBundle for a server with these authorities.
func bundleKey(bundle string) resources.Key {
	hash := sha256.Sum256([]byte(bundle))
	return resources.Key{Resource: "clustertrustbundles.certificates.k8s.io", Name: fmt.Sprintf("kubernetes.io:kube-apiserver-serving:%x", hash[:12])}
}

// The ClusterTrustBundle of kube-controller-manager may have further certificates, and then is the only one: kube-controller-manager removes the
// server's. One without the server's authorities is removed.
func TestTrustBundleWithFurtherCertificates(t *testing.T) {
	c := newCluster(t)
	c.serve()
	own := newBundle(t)
	put := func(bundle string) *resources.Object {
		t.Helper()
		return c.put("clustertrustbundles.certificates.k8s.io", &certificates.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: bundleKey(bundle).Name},
			Spec: certificates.ClusterTrustBundleSpec{SignerName: "kubernetes.io/kube-apiserver-serving", TrustBundle: bundle}})
	}
	c.trust(controllers.TrustBundle, authorities{own, make(chan struct{})})
	c.start()
	c.until("the bundle", bundleKey(own), func(o *resources.Object) bool { return o != nil })
	theirs := put(own + newBundle(t))
	c.delete(c.get(bundleKey(own)), metav1.DeletePropagationBackground)
	c.gone(put(newBundle(t))) // handled after the others
	if c.get(theirs.Key) == nil || c.get(bundleKey(own)) != nil {
		t.Errorf("there is kube-controller-manager's: %t, the server's own: %t", c.get(theirs.Key) != nil, c.get(bundleKey(own)) != nil)
	}
	c.delete(theirs, metav1.DeletePropagationBackground)
	c.until("the bundle", bundleKey(own), func(o *resources.Object) bool { return o != nil })
}

// There is one ClusterTrustBundle of the server's authorities, under kube-controller-manager's name for it; those of other signers are
// left alone.
func TestTrustBundle(t *testing.T) {
	c := newCluster(t)
	c.serve()
	first, second := authorities{newBundle(t), make(chan struct{})}, authorities{newBundle(t), make(chan struct{})}
	key := func(a authorities) resources.Key { return bundleKey(a.bundle) }
	there := func(a authorities) {
		t.Helper()
		c.until("the bundle", key(a), func(o *resources.Object) bool {
			if o == nil {
				return false
			}
			b := decode[certificatesv1.ClusterTrustBundle](t, o)
			return b.Spec.SignerName == "kubernetes.io/kube-apiserver-serving" && b.Spec.TrustBundle == a.bundle
		})
	}
	other := c.put("clustertrustbundles.certificates.k8s.io", &certificates.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: "example.com:mine:1"},
		Spec: certificates.ClusterTrustBundleSpec{SignerName: "example.com/mine", TrustBundle: first.bundle}})
	next := c.trust(controllers.TrustBundle, first)
	c.start()
	there(first)
	c.delete(c.get(key(first)), metav1.DeletePropagationBackground)
	there(first)
	c.edit(c.get(key(first)), func(m metav1.Object) { m.(*certificates.ClusterTrustBundle).Spec.TrustBundle = second.bundle })
	there(first)
	was := c.get(key(first))
	next <- second
	close(first.changed)
	there(second)
	c.gone(was)
	if c.get(other.Key) == nil {
		t.Error("the bundle of another signer is gone")
	}
}
