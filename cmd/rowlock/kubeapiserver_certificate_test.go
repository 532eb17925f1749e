package main

import (
	"net"
	"path/filepath"
	"slices"
	"testing"

	"github.com/spf13/cobra"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	certutil "k8s.io/client-go/util/cert"
)

// The certificate that is created in --cert-dir is for the addresses by which clients reach the server: the advertised one, which is derived from
// --bind-address if none is given, that of the Service kubernetes, and the local one.
func TestAddressesOfTheCreatedCertificate(t *testing.T) {
	own := "127.0.0.1"
	if ip, err := utilnet.ResolveBindAddress(net.IPv4zero); err == nil { // there is a network
		own = ip.String()
	}
	for _, tc := range []struct {
		line []string
		want []string
	}{
		{[]string{"--advertise-address=192.0.2.5"}, []string{"192.0.2.5", "127.0.0.1", "10.0.0.1", "localhost", "kubernetes.default.svc", "kubernetes"}},
		{[]string{"--advertise-address=192.0.2.5", "--bind-address=127.0.0.2"}, []string{"192.0.2.5", "127.0.0.2", "10.0.0.1", "kubernetes"}},
		{[]string{"--service-cluster-ip-range=10.99.0.0/24"}, []string{own, "127.0.0.1", "10.99.0.1", "localhost"}},
		{[]string{"--bind-address=127.0.0.1"}, []string{own, "127.0.0.1", "10.0.0.1"}},
		{[]string{"--bind-address=192.0.2.7"}, []string{"192.0.2.7", "10.0.0.1"}},
		{[]string{"--advertise-address=0.0.0.0"}, []string{own, "127.0.0.1", "10.0.0.1"}},
		{[]string{"--advertise-address=169.254.1.1"}, []string{"169.254.1.1", "127.0.0.1", "10.0.0.1"}},
		{[]string{"--advertise-address=127.0.0.1"}, []string{"127.0.0.1", "10.0.0.1", "localhost"}},
	} {
		o, cmd, dir := &kubeAPIServerOptions{}, &cobra.Command{}, t.TempDir()
		addSections(cmd, o.sections())
		if err := cmd.ParseFlags(append(tc.line, "--cert-dir="+dir, "--data-dir="+t.TempDir())); err != nil {
			t.Fatal(err)
		}
		if err := o.complete(); err != nil {
			t.Fatal(err)
		}
		certs, err := certutil.CertsFromFile(filepath.Join(dir, "apiserver.crt"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range tc.want {
			if err := certs[0].VerifyHostname(name); err != nil {
				t.Errorf("%v: %v", tc.line, err)
			}
		}
		for _, ip := range certs[0].IPAddresses {
			if !slices.Contains(tc.want, ip.String()) {
				t.Errorf("%v: the certificate is for %s, too", tc.line, ip)
			}
		}
	}
}
