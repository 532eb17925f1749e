package server

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/rowlock/rowlock/resources/builtin"
)

// witness is an admission chain that writes down who writes what, and then is the one of the server.
type witness struct {
	admission.ValidationInterface
	admission.MutationInterface
	mu   sync.Mutex
	seen map[string]user.Info
}

func (w *witness) Handles(op admission.Operation) bool { return w.ValidationInterface.Handles(op) }

func (w *witness) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	w.mu.Lock()
	w.seen[a.GetResource().Resource+"/"+a.GetSubresource()] = a.GetUserInfo()
	w.mu.Unlock()
	return w.ValidationInterface.Validate(ctx, a, o)
}

// What the server writes of itself passes admission, all plugins of it, as the user that kube-apiserver is to itself.
func TestBootstrapIsAdmitted(t *testing.T) {
	x := newRepairs(t)
	plugins, err := x.s.newAdmission()
	if err != nil {
		t.Fatal(err)
	}
	w := &witness{plugins.(admission.ValidationInterface), plugins.(admission.MutationInterface), sync.Mutex{}, map[string]user.Info{}}
	x.s.Pipeline.Use(w)
	if err := x.s.Bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := Network{Address: net.IPv4(192, 0, 2, 1), Port: 6443, ServiceRanges: builtin.DefaultServiceNetwork().Ranges}
	if err := x.s.BootstrapServices(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	ip := x.send("POST", servicesPath, `{"metadata":{"name":"a"},"spec":{"ports":[{"port":80}]}}`, 201).Get("spec.clusterIP").Str
	x.send("DELETE", addressPath+"/"+ip, "", 200)
	x.repair(0)
	for _, resource := range []string{"namespaces/", "configmaps/", "endpoints/", "endpointslices/", "servicecidrs/",
		"ipaddresses/", "events/"} {
		who := w.seen[resource]
		if who == nil || who.GetName() != "system:apiserver" || !slices.Contains(who.GetGroups(), "system:masters") {
			t.Errorf("%s were written by %v", resource, who)
		}
	}
}
