package builtin_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources"
)

// rival is a validating admission plugin that lets another Service take the address of the first one that it sees.
type rival struct {
	c     *cluster
	seen  []*core.Service
	again []bool
}

func (*rival) Handles(admission.Operation) bool { return true }

func (r *rival) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	s := a.GetObject().(*core.Service)
	if s.Name == "rival" {
		return nil
	}
	r.again = append(r.again, resources.IsValidatedAgain(ctx))
	if r.seen = append(r.seen, s.DeepCopy()); len(r.seen) == 1 {
		r.c.must(r.c.service("rival", fmt.Sprintf(`"clusterIP":%q,"ports":[{"port":80}]`, s.Spec.ClusterIP), false))
	}
	return nil
}

// A Service that loses its address to another request gets a new one. Validating admission sees both, and knows that it has seen the Service.
func TestValidatedAgain(t *testing.T) {
	c := network(t, 30000, 30010, "10.46.0.0/28")
	r := &rival{c: c}
	c.pipeline.Use(r, nil)
	got := c.must(c.service("loser", `"ports":[{"port":80}]`, false))
	c.checkBooks()
	if len(r.seen) != 2 || r.seen[0].UID != got.UID || r.seen[1].UID != got.UID || r.seen[0].Spec.ClusterIP == got.Spec.ClusterIP ||
		r.seen[1].Spec.ClusterIP != got.Spec.ClusterIP || !slices.Equal(r.again, []bool{false, true}) {
		t.Errorf("got %v, and admission saw %v, again: %v", got, r.seen, r.again)
	}
}

// TestValidatedAgainByPut is TestValidatedAgain for a Service that a PUT or an apply creates.
func TestValidatedAgainByPut(t *testing.T) {
	c := network(t, 30000, 30010, "10.46.0.0/28")
	r := &rival{c: c}
	c.pipeline.Use(r, nil)
	s := c.served("", "services")
	obj := decode(c, s.GroupVersionKind, `{"metadata":{"name":"loser","namespace":"`+space+`"},"spec":{"ports":[{"port":80}]}}`)
	u := resources.UpdateRequest{Type: s.Type, Name: "loser", ForceCreate: true,
		Change: func(context.Context, runtime.Object, *resources.Object) (runtime.Object, error) {
			return obj.DeepCopyObject(), nil
		}}
	if _, created, err := c.pipeline.Update(c.request(s, "", "loser"), &u); !created || err != nil {
		t.Fatal(created, err)
	}
	c.checkBooks()
	if !slices.Equal(r.again, []bool{false, true}) {
		t.Errorf("admission saw %v, again: %v", r.seen, r.again)
	}
}
