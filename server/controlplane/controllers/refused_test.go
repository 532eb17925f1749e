package controllers_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"

	"github.com/rowlock/rowlock/resources"
)

// refusals is a webhook that refuses each write of a name twice, with a code that also means that the object is gone.
type refusals struct {
	name string
	code int32

	mu      sync.Mutex
	refused map[string]int
}

func (r *refusals) Handles(op admission.Operation) bool {
	return op == admission.Delete || op == admission.Update
}

func (r *refusals) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	write := fmt.Sprint(a.GetOperation(), a.GetResource().Resource, a.GetSubresource())
	if a.GetName() != r.name || r.refused[write] == 2 {
		return nil
	}
	r.refused[write]++
	return webhookerrors.ToStatusErr("later.example.com", &metav1.Status{Code: r.code, Message: "not now"})
}

// refusing runs a test with controllers whose writes of an object are refused at first.
func refusing(t *testing.T, name string, test func(c *cluster, r *refusals)) {
	for _, code := range []int32{404, 409} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			c := newCluster(t)
			r := &refusals{name: name, code: code, refused: map[string]int{}}
			c.writes = resources.NewPipeline(c.theirs, resources.PipelineOptions{})
			c.writes.Use(r, nil)
			c.start()
			test(c, r)
			r.mu.Lock()
			defer r.mu.Unlock()
			if len(r.refused) == 0 {
				t.Error("nothing was refused")
			}
		})
	}
}

// A dependent whose deletion a webhook refuses for a while is deleted later.
func TestBackgroundRefused(t *testing.T) {
	refusing(t, "child", func(c *cluster, _ *refusals) {
		owner := c.thing("owner")
		child := c.thing("child", ownedBy(owner))
		c.delete(owner, background)
		c.gone(owner, child)
	})
}

// An owner stays until its dependents no longer refer to it, also when a webhook refuses that for a while.
func TestOrphanRefused(t *testing.T) {
	for _, name := range []string{"child", "owner"} {
		t.Run(name, func(t *testing.T) {
			refusing(t, name, func(c *cluster, _ *refusals) {
				owner := c.thing("owner")
				child := c.thing("child", ownedBy(owner))
				c.delete(owner, orphan)
				c.gone(owner)
				if o := c.get(child.Key); o == nil || len(ownersIn(o)) > 0 {
					c.Errorf("the owner is gone, and its dependent is %s", c.describe(child.Key))
				}
				c.stays(child)
			})
		})
	}
}

// A namespace is emptied, and ends, also when a webhook refuses the writes of that for a while.
func TestNamespaceRefused(t *testing.T) {
	refusing(t, "doomed", func(c *cluster, r *refusals) {
		ns := c.namespace("doomed")
		c.thing("doomed", in("doomed"))
		c.delete(ns, background)
		c.gone(ns)
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.refused) < 3 {
			c.Errorf("only %v were refused", r.refused)
		}
	})
}
