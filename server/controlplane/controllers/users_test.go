package controllers_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"k8s.io/apiserver/pkg/admission"

	"github.com/rowlock/rowlock/resources"
)

// witness is an admission plugin that records the user of each write.
type witness struct {
	mu   sync.Mutex
	seen []string
}

func (w *witness) Handles(admission.Operation) bool { return true }

func (w *witness) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	resource := a.GetResource().Resource
	if a.GetSubresource() != "" {
		resource += "/" + a.GetSubresource()
	}
	w.seen = append(w.seen, a.GetUserInfo().GetName()+" "+string(a.GetOperation())+" "+resource)
	return nil
}

// The controllers write as the users that they are in a cluster, and admission sees these users.
func TestControllersAreUsers(t *testing.T) {
	c := newCluster(t)
	w := &witness{}
	c.writes = resources.NewPipeline(c.store, resources.PipelineOptions{})
	c.writes.Use(w, nil)
	c.start()
	owner := c.thing("owner")
	child := c.thing("child", ownedBy(owner))
	c.delete(owner, background)
	c.gone(child)
	doomed := c.namespace("doomed")
	inside := c.thing("inside", in("doomed"))
	c.delete(doomed, background)
	c.gone(inside, doomed)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, want := range []string{
		"system:serviceaccount:kube-system:generic-garbage-collector DELETE configmaps",
		"system:serviceaccount:kube-system:namespace-controller DELETE configmaps",
		"system:serviceaccount:kube-system:namespace-controller UPDATE namespaces/status",
		"system:serviceaccount:kube-system:namespace-controller UPDATE namespaces/finalize",
	} {
		if !slices.Contains(w.seen, want) {
			t.Errorf("admission has not seen %s, but %q", want, w.seen)
		}
	}
}
