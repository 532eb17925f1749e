package controlplane

import (
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/kubernetes/pkg/apis/discovery"
)

// Endpoints are grouped the same way in whatever order they come, and each address occurs once.
func TestGrouped(t *testing.T) {
	a, b, six := net.IPv4(192, 0, 2, 1), net.IPv4(192, 0, 2, 2), net.ParseIP("2001:db8::1")
	want := []*endpointGroup{
		{discovery.AddressTypeIPv4, 443, []string{"192.0.2.1"}},
		{discovery.AddressTypeIPv4, 6443, []string{"192.0.2.1", "192.0.2.2"}},
		{discovery.AddressTypeIPv6, 443, []string{"2001:db8::1"}},
	}
	for _, all := range [][]endpoint{
		{{a, 443}, {b, 6443}, {a, 6443}, {six, 443}, {b, 6443}},
		{{six, 443}, {a, 6443}, {b, 6443}, {a, 443}},
	} {
		if diff := cmp.Diff(want, grouped(all), cmp.AllowUnexported(endpointGroup{})); diff != "" {
			t.Error(diff)
		}
	}
}
