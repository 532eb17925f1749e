package builtin_test

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/core"
)

// rival is a validating admission plugin that lets another Service take the address of the first one that it sees.
type rival struct {
	c    *cluster
	seen []*core.Service
}

func (*rival) Handles(admission.Operation) bool { return true }

func (r *rival) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	s := a.GetObject().(*core.Service)
	if s.Name == "rival" {
		return nil
	}
	if r.seen = append(r.seen, s.DeepCopy()); len(r.seen) == 1 {
		r.c.must(r.c.service("rival", fmt.Sprintf(`"clusterIP":%q,"ports":[{"port":80}]`, s.Spec.ClusterIP), false))
	}
	return nil
}

// A Service that loses its address to another request gets a new one, and validating admission sees it once.
func TestValidatedOnce(t *testing.T) {
	c := network(t, 30000, 30010, "10.46.0.0/28")
	r := &rival{c: c}
	c.pipeline.Use(r, nil)
	got := c.must(c.service("loser", `"ports":[{"port":80}]`, false))
	c.checkBooks()
	if len(r.seen) != 1 || r.seen[0].UID != got.UID || r.seen[0].Spec.ClusterIP == got.Spec.ClusterIP {
		t.Errorf("got %v, and admission saw %v", got, r.seen)
	}
}
