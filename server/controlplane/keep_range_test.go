package controlplane

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/admission"

	"github.com/rowlock/rowlock/resources"
)

const defaultRange = "/apis/networking.k8s.io/v1/servicecidrs/kubernetes"

// refusingRanges is an admission plugin that refuses every write of a ServiceCIDR.
type refusingRanges struct{ refusingNames }

func (refusingRanges) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().Resource == "servicecidrs" {
		return admission.NewForbidden(a, errors.New("no range"))
	}
	return nil
}

// What is wrong with the default ServiceCIDR is in Events as kube-apiserver v1.37.1 writes them.
func TestReportOfTheDefaultRange(t *testing.T) {
	const ready = `{"status":{"conditions":[{"type":"Ready","status":"False","reason":"Odd","message":"it is odd","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`
	for name, c := range map[string]struct {
		prepare         func(*repairs, *Network)
		reason, message string
		patched         int // the code of a change of the ServiceCIDR
	}{
		"another range": {func(_ *repairs, n *Network) { n.ServiceRanges = n.ServiceRanges[1:] }, "KubernetesDefaultServiceCIDRInconsistent",
			"The default ServiceCIDR [10.43.0.0/16 fd00::/64] does not match the controller flag configurations [fd00::/64]", 200},
		"not ready": {func(x *repairs, _ *Network) { x.send("PATCH", defaultRange+"/status", ready, 200) }, "Odd", "Configuration matches, but it is odd", 200},
		"never ready": {func(x *repairs, _ *Network) {
			x.send("PATCH", defaultRange+"/status", `{"status":{"conditions":null}}`, 200)
			x.p.Pipeline.Use(refusingRanges{}, nil)
		}, "KubernetesDefaultServiceCIDRError", "The default ServiceCIDR Status can not be set to Ready=True", 403},
		"no second family": {func(x *repairs, n *Network) {
			x.send("PATCH", defaultRange, `{"metadata":{"finalizers":null}}`, 200)
			x.send("DELETE", defaultRange, "", 200)
			if err := x.p.ensureRange(t.Context(), n.ServiceRanges[:1], nil); err != nil {
				t.Fatal(err)
			}
			x.p.Pipeline.Use(refusingRanges{}, nil)
		}, "KubernetesDefaultServiceCIDRError", `The default ServiceCIDR can not be upgraded from 10.43.0.0/16 to dual stack [10.43.0.0/16 fd00::/64] : ` +
			`servicecidrs.networking.k8s.io "kubernetes" is forbidden: no range`, 403},
		"none": {func(x *repairs, _ *Network) {
			x.send("PATCH", defaultRange, `{"metadata":{"finalizers":null}}`, 200)
			x.send("DELETE", defaultRange, "", 200)
			x.p.Pipeline.Use(refusingRanges{}, nil)
		}, "KubernetesDefaultServiceCIDRError", "The default ServiceCIDR can not be created", 404},
	} {
		t.Run(name, func(t *testing.T) {
			x := newRepairs(t)
			n := x.network(6443)
			c.prepare(x, &n)
			chore := x.p.keepServices(n)
			find := func(what string) string {
				t.Helper()
				events := x.send("GET", "/api/v1/namespaces/default/events?fieldSelector=involvedObject.kind%3DServiceCIDR", "", 200)
				if got := events.Get("items.#").Int(); got != 1 {
					t.Fatalf("there are %d Events: %s", got, events)
				}
				return events.Get("items.0." + what).String()
			}
			now := time.Now()
			x.p.reporters[rangeManager].now = func() time.Time { return now }
			for _, count := range []string{"1", "2"} { // the second time, it is found again
				x.send("PATCH", defaultRange, `{"metadata":{"labels":{"count":"`+count+`"}}}`, c.patched)
				chore.begin()
				if _, err := chore.do(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
				for what, want := range map[string]string{"reason": c.reason, "message": c.message, "count": count, "type": "Warning",
					"source.component": rangeManager, "reportingComponent": rangeManager, "reportingInstance": "", "eventTime": "", "series": "",
					"involvedObject.name": "kubernetes", "metadata.managedFields.0.apiVersion": "v1"} {
					if got := find(what); got != want {
						t.Errorf("%s is %q, want %q", what, got, want)
					}
				}
			}
		})
	}
}

// Once a default ServiceCIDR was reported, nothing wakes the server for it.
func TestReportOfTheDefaultRangeEnds(t *testing.T) {
	x := newRepairs(t)
	n := x.network(6443)
	n.ServiceRanges = n.ServiceRanges[1:]
	chore, now := x.p.keepServices(n), time.Now()
	x.p.reporters[rangeManager].now = func() time.Time { return now }
	chore.begin()
	again, err := chore.do(t.Context(), nil)
	for turns := 0; again > 0 || err != nil; turns++ {
		if err != nil || turns > 3 {
			t.Fatalf("after %d turns, again in %v: %v", turns, again, err)
		}
		now = now.Add(again)
		again, err = chore.do(t.Context(), []*resources.Event{})
	}
	if len(x.p.reporters[rangeManager].said) > 0 {
		t.Error("reports are kept")
	}
}

// A default ServiceCIDR that is right is not reported.
func TestNoReportOfTheDefaultRange(t *testing.T) {
	x := newRepairs(t)
	chore := x.p.keepServices(x.network(6443))
	chore.begin()
	if again, err := chore.do(t.Context(), nil); err != nil || again != 0 {
		t.Fatal(again, err)
	}
	if got := x.send("GET", "/api/v1/events?fieldSelector=involvedObject.kind%3DServiceCIDR", "", 200).Get("items.#").Int(); got != 0 {
		t.Errorf("there are %d Events", got)
	}
}
