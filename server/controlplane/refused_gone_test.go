package controlplane

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"
)

// goneSayers is an admission plugin that refuses the deletion of some objects with the code of an object that is gone, as a webhook may.
type goneSayers struct {
	code  int32
	names []string
	count atomic.Int64
}

func (g *goneSayers) Handles(op admission.Operation) bool { return op == admission.Delete }

func (g *goneSayers) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !slices.Contains(g.names, a.GetName()) {
		return nil
	}
	g.count.Add(1)
	return webhookerrors.ToStatusErr("w.example.com", &metav1.Status{Code: g.code, Message: "not now"})
}

// A webhook that refuses with 404 or 409 to delete an object which has to be made anew does not keep a server from starting, nor busy: the
// object is there, so the refusal counts as any other.
func TestDeletionsRefusedAsGone(t *testing.T) {
	const (
		bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
		slices   = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
		role     = `"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"other"}`
	)
	for _, code := range []int32{404, 409} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			x := newRepairs(t)
			x.send("DELETE", bindings+"/system:basic-user", "", 200)
			x.send("POST", bindings, `{"metadata":{"name":"system:basic-user","annotations":{"rbac.authorization.kubernetes.io/autoupdate":"true"}},`+role+`}`, 201)
			x.send("DELETE", slices+"/kubernetes", "", 200)
			x.send("POST", slices, `{"metadata":{"name":"kubernetes"},"addressType":"IPv6","endpoints":[]}`, 201)
			plugin := &goneSayers{code: code, names: []string{"system:basic-user", "kubernetes"}}
			x.p.Pipeline.Use(plugin, nil)
			x.start(6443)
			if plugin.count.Load() < 2 {
				t.Errorf("%d deletions were tried", plugin.count.Load())
			}
			if x.p.keepRefused() == nil {
				t.Error("what was refused is not tried again")
			}
			if got := x.send("GET", bindings+"/system:basic-user", "", 200).Get("roleRef.name").Str; got != "other" {
				t.Errorf("the binding is of %s", got)
			}
			plugin.names = nil
			if _, err := x.p.keepRefused().do(t.Context(), nil); err != nil {
				t.Error(err)
			}
			if got := x.send("GET", bindings+"/system:basic-user", "", 200).Get("roleRef.name").Str; got != "system:basic-user" {
				t.Errorf("the binding is of %s", got)
			}
		})
	}
}
