package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	api "k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources"
)

// inPhases is a store of namespaces, by their phase, and a server of the same ones for upstream's plugin. A namespace in late is known to
// another server and not yet to the cache of this one.
type inPhases struct {
	resources.Reader
	phases, late map[string]corev1.NamespacePhase
}

func (n inPhases) Get(_ context.Context, key resources.Key, at resources.At) (*resources.Object, error) {
	phase, ok := n.phases[key.Name]
	if !ok && at.Match == resources.MostRecent {
		phase, ok = n.late[key.Name]
	}
	if !ok || key.Resource != "namespaces" || key.Namespace != "" {
		return nil, resources.ErrNotFound
	}
	data, err := json.Marshal(namespaceIn(key.Name, phase))
	return &resources.Object{Key: key, Data: data}, err
}

func namespaceIn(name string, phase corev1.NamespacePhase) *corev1.Namespace {
	return &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.NamespaceStatus{Phase: phase}}
}

// RoundTrip implements http.RoundTripper: it answers a GET of a namespace.
func (n inPhases) RoundTrip(r *http.Request) (*http.Response, error) {
	name, code := path.Base(r.URL.Path), http.StatusOK
	phase, ok := n.phases[name]
	if !ok {
		phase, ok = n.late[name]
	}
	var body any = namespaceIn(name, phase)
	if !ok {
		status := apierrors.NewNotFound(corev1.Resource("namespaces"), name).ErrStatus
		status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		body, code = status, http.StatusNotFound
	}
	data, err := json.Marshal(body)
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(data)), Request: r}, err
}

// newUpstreamLifecycle returns upstream's plugin over the same namespaces.
func (n inPhases) newUpstreamLifecycle(t *testing.T) admission.MutationInterface {
	t.Helper()
	client, err := kubernetes.NewForConfigAndClient(&rest.Config{Host: "http://test", QPS: -1}, &http.Client{Transport: n})
	if err != nil {
		t.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	for name, phase := range n.phases {
		if err := factory.Core().V1().Namespaces().Informer().GetStore().Add(namespaceIn(name, phase)); err != nil {
			t.Fatal(err)
		}
	}
	plugins := admission.NewPlugins()
	lifecycle.Register(plugins)
	p, err := plugins.InitPlugin("NamespaceLifecycle", nil, initializer.New(client, nil, factory, nil, nil, nil, nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	p.(*lifecycle.Lifecycle).SetReadyFunc(func() bool { return true }) // nothing runs the informers
	return p.(admission.MutationInterface)
}

// TestNamespaceLifecycleIsUpstreams compares the plugin with upstream's: every operation, on every kind of object, in every state of a namespace.
func TestNamespaceLifecycleIsUpstreams(t *testing.T) {
	states := inPhases{
		phases: map[string]corev1.NamespacePhase{"active": corev1.NamespaceActive, "ending": corev1.NamespaceTerminating, "unset": "",
			"default": corev1.NamespaceActive, "kube-system": corev1.NamespaceTerminating, "kube-public": corev1.NamespaceActive, "kube-node-lease": corev1.NamespaceActive},
		late: map[string]corev1.NamespacePhase{"late": corev1.NamespaceActive, "lateending": corev1.NamespaceTerminating},
	}
	ours, upstreams := NamespaceLifecycle{states}, states.newUpstreamLifecycle(t)
	namespaces := []string{"", "active", "ending", "unset", "late", "lateending", "missing", "default", "kube-system", "kube-public", "kube-node-lease", ".", "a%b"}
	for _, op := range []admission.Operation{admission.Create, admission.Update, admission.Delete, admission.Connect} {
		if a, b := ours.Handles(op), upstreams.Handles(op); a != b {
			t.Errorf("handles %s: %v, upstream %v", op, a, b)
		} else if !a {
			continue
		}
		for _, c := range []struct {
			kind        schema.GroupVersionKind
			resource    schema.GroupVersionResource
			subresource string
		}{
			{api.Kind("ConfigMap").WithVersion("v1"), api.Resource("configmaps").WithVersion("v1"), ""},
			{api.Kind("Pod").WithVersion("v1"), api.Resource("pods").WithVersion("v1"), "status"},
			{api.Kind("Binding").WithVersion("v1"), api.Resource("pods").WithVersion("v1"), "binding"},
			{api.Kind("Namespace").WithVersion("v1"), api.Resource("namespaces").WithVersion("v1"), ""},
			{api.Kind("Namespace").WithVersion("v1"), api.Resource("namespaces").WithVersion("v1"), "finalize"},
			{schema.GroupVersionKind{Group: "other", Version: "v1", Kind: "Namespace"}, schema.GroupVersionResource{Group: "other", Version: "v1", Resource: "namespaces"}, ""},
			{schema.GroupVersionKind{Group: "authorization.k8s.io", Version: "v1", Kind: "LocalSubjectAccessReview"},
				schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "localsubjectaccessreviews"}, ""},
			{schema.GroupVersionKind{Group: "other", Version: "v1", Kind: "LocalSubjectAccessReview"},
				schema.GroupVersionResource{Group: "other", Version: "v1", Resource: "localsubjectaccessreviews"}, ""},
		} {
			for _, namespace := range namespaces {
				for _, name := range []string{"", "a", namespace} {
					for _, dry := range []bool{false, true} {
						a := admission.NewAttributesRecord(nil, nil, c.kind, namespace, name, c.resource, c.subresource, op, nil, dry, nil)
						got, want := ours.Admit(t.Context(), a, nil), upstreams.Admit(t.Context(), a, nil)
						if diff := cmp.Diff(statusOf(want), statusOf(got)); diff != "" {
							t.Errorf("%s %s/%s %s/%s, dry run %v (-upstream +ours): %s", op, c.resource, c.subresource, namespace, name, dry, diff)
						}
					}
				}
			}
		}
	}
}

// statusOf returns what a client sees of an error.
func statusOf(err error) (status metav1.Status) {
	if refused := (*apierrors.StatusError)(nil); errors.As(err, &refused) {
		status = refused.ErrStatus
		status.TypeMeta = metav1.TypeMeta{} // which a client of upstream's plugin has read, and the server sets
		return status
	}
	if err != nil {
		status.Message = err.Error()
	}
	return status
}
