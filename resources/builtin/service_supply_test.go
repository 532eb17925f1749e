package builtin_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/networking"

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
	s, ok := a.GetObject().(*core.Service)
	if !ok || s.Name == "rival" {
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

// addressReviews is a validating plugin that remembers the requests for IPAddresses, and refuses those for some Services.
type addressReviews struct {
	seen                            []string
	refuseCreate, refuseDelete, add string
}

func (*addressReviews) Handles(admission.Operation) bool { return true }

func (r *addressReviews) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if address, ok := a.GetObject().(*networking.IPAddress); ok && r.add != "" {
		address.Labels[r.add] = "added"
	}
	return nil
}

func (r *addressReviews) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	obj, refuse := a.GetObject(), r.refuseCreate
	if a.GetOperation() == admission.Delete {
		obj, refuse = a.GetOldObject(), r.refuseDelete
	}
	address, ok := obj.(*networking.IPAddress)
	if !ok {
		return nil
	}
	r.seen = append(r.seen, fmt.Sprintf("%s %s %s by %s", a.GetOperation(), a.GetName(), address.Labels[r.add], a.GetUserInfo().GetName()))
	if address.Spec.ParentRef.Name == refuse {
		return admission.NewForbidden(a, errors.New("no address"))
	}
	return nil
}

func (r *addressReviews) expect(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, r.seen); diff != "" {
		t.Errorf("admission saw (-want +got):\n%s", diff)
	}
	r.seen = nil
}

// The IPAddresses of Services are admitted as requests that kube-apiserver sends to itself. The answers are those of kube-apiserver v1.37.1.
func TestAddressesAreAdmitted(t *testing.T) {
	c := network(t, 30000, 30010, "10.46.0.0/28")
	r := &addressReviews{refuseCreate: "denied", refuseDelete: "kept", add: "label"}
	c.pipeline.Use(r, nil)
	const first, second = `"ports":[{"port":80}],"clusterIP":"10.46.0.3"`, `"ports":[{"port":80}],"clusterIP":"10.46.0.4"`

	if _, err := c.service("dry", first, true); err != nil {
		t.Fatal(err)
	}
	r.expect(t)
	c.must(c.service("allowed", first, false))
	r.expect(t, "CREATE 10.46.0.3 added by system:apiserver")
	if o, err := c.store.Get(t.Context(), resources.Key{Resource: "ipaddresses.networking.k8s.io", Name: "10.46.0.3"}, resources.At{}); err != nil || o.Labels["label"] != "added" {
		t.Errorf("the stored address is %v, %v", o, err)
	}
	if err := c.delete("allowed", metav1.DryRunAll); err != nil {
		t.Fatal(err)
	}
	r.expect(t)
	if err := c.delete("allowed"); err != nil {
		t.Fatal(err)
	}
	r.expect(t, "DELETE 10.46.0.3 added by system:apiserver")
	c.checkBooks()

	_, err := c.service("denied", second, false)
	const why = `Service "denied" is invalid: spec.clusterIPs: Invalid value: ["10.46.0.4"]: failed to allocate IP 10.46.0.4: ` +
		`ipaddresses.networking.k8s.io "10.46.0.4" is forbidden: no address`
	if !apierrors.IsInvalid(err) || err.Error() != why {
		t.Errorf("a refused address is answered with %v", err)
	}
	c.checkBooks()
	r.expect(t, "CREATE 10.46.0.4 added by system:apiserver")

	c.must(c.service("kept", second, false))
	if err := c.delete("kept"); err != nil {
		t.Fatal(err)
	}
	r.expect(t, "CREATE 10.46.0.4 added by system:apiserver", "DELETE 10.46.0.4 added by system:apiserver")
	if diff := cmp.Diff(map[string]string{"10.46.0.4": "kept"}, c.taken()); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
}

// nested is a mutating plugin that creates another Service while an address is admitted.
type nested struct {
	c    *cluster
	done bool
}

func (*nested) Handles(admission.Operation) bool { return true }

func (n *nested) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().Resource == "ipaddresses" && !n.done {
		n.done = true
		n.c.must(n.c.service("second", `"ports":[{"port":80}]`, false))
	}
	return nil
}

// No allocation waits for the admission of the addresses of another one.
func TestAllocationsDoNotWait(t *testing.T) {
	c := network(t, 30000, 30010, "10.46.0.0/28")
	n := &nested{c: c}
	c.pipeline.Use(n, nil)
	c.must(c.service("first", `"ports":[{"port":80}]`, false))
	if c.checkBooks(); !n.done {
		t.Error("no address was admitted")
	}
}
