package controlplane

import (
	"context"
	"slices"
	"sync"
	"testing"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
)

// witness is an admission plugin that records the user of each write.
type witness struct {
	mu   sync.Mutex
	seen map[string]user.Info
}

func (w *witness) Handles(admission.Operation) bool { return true }

func (w *witness) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[a.GetResource().Resource+"/"+a.GetSubresource()] = a.GetUserInfo()
	return nil
}

// The server's own writes pass admission, as the user of kube-apiserver's requests to itself.
func TestBootstrapIsAdmitted(t *testing.T) {
	x := prepareRepairs(t)
	w := &witness{seen: map[string]user.Info{}}
	x.p.Pipeline.Use(w, nil)
	x.start(6443)
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
