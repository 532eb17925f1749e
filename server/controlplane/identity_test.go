package controlplane_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/apis/coordination"
	"k8s.io/utils/ptr"
)

const leasesPath = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"

func postedLease(name, labels string, renewed time.Time) string {
	return fmt.Sprintf(`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":%q,"labels":{%s}},
		"spec":{"holderIdentity":"x","leaseDurationSeconds":3600,"renewTime":%q}}`, name, labels, renewed.UTC().Format("2006-01-02T15:04:05.000000Z"))
}

// leaseNames returns the names of the Leases in a list.
func leaseNames(list string) (names []string) {
	for _, n := range gjson.Get(list, "items.#.metadata.name").Array() {
		names = append(names, n.Str)
	}
	return names
}

// A server has a Lease while it runs (KEP-1965). The Lease is recreated when it is deleted, and removed when the server ends. Leases of
// servers that are long gone are removed, and no other Leases.
func TestIdentity(t *testing.T) {
	k := newWhole(t, nil)
	const marked = `"apiserver.kubernetes.io/identity":"kube-apiserver"`
	for name, lease := range map[string]string{
		"gone":      postedLease("gone", marked, time.Now().Add(-61*time.Minute)),
		"lives":     postedLease("lives", marked, time.Now().Add(-59*time.Minute)),
		"another's": postedLease("other", "", time.Now().Add(-time.Hour*24)),
	} {
		if k.send("POST", leasesPath, lease) == "" {
			t.Fatal(name)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	network := k.services()
	network.Address = net.IPv4(192, 0, 2, 1)
	go func() {
		defer close(done)
		k.p.Keep(ctx, network)
	}()
	list := k.until("an own Lease, and none of one who is gone", "leases.coordination.k8s.io", leasesPath, func(list string) bool {
		return strings.Contains(list, `"apiserver-`) && !strings.Contains(list, `"gone"`)
	})
	if n := leaseNames(list); len(n) != 3 || n[1] != "lives" || n[2] != "other" {
		t.Errorf("Leases: %q", n)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	own := gjson.Get(list, "items.0")
	name := own.Get("metadata.name").Str
	if got := own.Get("metadata.labels").Raw; got != fmt.Sprintf(`{"apiserver.kubernetes.io/identity":"kube-apiserver","kubernetes.io/hostname":%q}`, host) {
		t.Errorf("labels: %s", got)
	}
	if got := own.Get("metadata.annotations").Raw; got != `{"kubernetes.io/peer-advertise-address":"192.0.2.1:6443"}` {
		t.Errorf("annotations: %s", got)
	}
	if s := own.Get("spec"); s.Get("leaseDurationSeconds").Int() != 3600 || !strings.HasPrefix(s.Get("holderIdentity").Str, name+"_") ||
		time.Since(s.Get("renewTime").Time()) > time.Minute {
		t.Errorf("spec: %s", s.Raw)
	}
	k.send("PATCH", leasesPath+"/"+name, `{"metadata":{"labels":{"apiserver.kubernetes.io/identity":null}},"spec":{"leaseDurationSeconds":1}}`)
	k.until("the label that was taken off", "leases.coordination.k8s.io", leasesPath+"/"+name, func(lease string) bool {
		return strings.Contains(lease, marked) && gjson.Get(lease, "spec.leaseDurationSeconds").Int() == 3600
	})
	k.send("DELETE", leasesPath+"/"+name, "")
	k.until("the Lease that was deleted", "leases.coordination.k8s.io", leasesPath, func(list string) bool { return strings.Contains(list, name) })
	stop()
	<-done
	if n := leaseNames(k.send("GET", leasesPath, "")); len(n) != 2 {
		t.Errorf("Leases after the end: %q", n)
	}
}

// With the feature disabled, no server has a Lease or reports the hooks.
func TestNoIdentity(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.APIServerIdentity, false)
	k := newKept(t, nil)
	k.send("DELETE", "/api/v1/namespaces/kube-system/configmaps/kube-apiserver-legacy-service-account-token-tracking", "")
	k.until("a chore done", "configmaps", "/api/v1/namespaces/kube-system/configmaps", func(list string) bool {
		return strings.Contains(list, "kube-apiserver-legacy-service-account-token-tracking")
	})
	if n := leaseNames(k.send("GET", leasesPath, "")); len(n) != 0 {
		t.Errorf("Leases: %q", n)
	}
	if checks := k.send("GET", "/readyz?verbose", ""); strings.Contains(checks, "identity") || !strings.Contains(checks, "bootstrap-roles") {
		t.Errorf("checks: %s", checks)
	}
}

// shortLeases is an admission plugin that changes every Lease that is written, and reports when.
type shortLeases chan time.Time

func (shortLeases) Handles(admission.Operation) bool { return true }

func (c shortLeases) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if l, ok := a.GetObject().(*coordination.Lease); ok {
		l.Spec.LeaseDurationSeconds = ptr.To(int32(1))
		select {
		case c <- time.Now():
		default:
		}
	}
	return nil
}

// If a policy changes the Lease with each write, the server does not write it in a loop.
func TestIdentityThatIsChanged(t *testing.T) {
	k, written := newWhole(t, nil), make(shortLeases, 8)
	k.pipeline.Use(written, k.registry)
	k.keep(k.services())
	first, last := <-written, time.Time{}
	for range 6 { // one write may be admitted twice
		last = <-written
	}
	if took := last.Sub(first); took < time.Second {
		t.Errorf("seven writes of the Lease in %v", took)
	}
}
