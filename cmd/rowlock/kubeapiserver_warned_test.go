package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	certutil "k8s.io/client-go/util/cert"
)

// Addresses that no endpoint can have and an incomplete front proxy stop kube-apiserver from starting as little as this server, which logs a warning.
func TestKubeAPIServerStartsWarned(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "proxy.crt"), filepath.Join(dir, "proxy.key")
	certificate, key, err := certutil.GenerateSelfSignedCertKey("front-proxy-client", nil, nil)
	if err := errors.Join(err, os.WriteFile(certFile, certificate, 0o600), os.WriteFile(keyFile, key, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args []string
		want string // the only line of the log
	}{
		{[]string{"--advertise-address=0.0.0.0"}, ""},
		{[]string{"--advertise-address=::"}, ""},
		{[]string{"--advertise-address=127.0.0.1"}, ""},
		{[]string{"--advertise-address=169.254.1.1"}, `msg="accepted without effect" flags=--advertise-address`},
		{[]string{"--advertise-address=224.0.0.1", "--proxy-client-key-file=" + keyFile}, `msg="accepted without effect" flags="--advertise-address --proxy-client-key-file"`},
		{[]string{"--proxy-client-cert-file=/nowhere"}, `msg="accepted without effect" flags=--proxy-client-cert-file`},
		{[]string{"--proxy-client-cert-file=" + certFile, "--proxy-client-key-file=" + keyFile}, "extension API servers are not told to trust --proxy-client-cert-file"},
	} {
		s := startKubeAPIServer(t, t.TempDir(), append(tc.args, "--etcd-servers=http://127.0.0.1:1")...)
		if logged := s.end(t); !strings.Contains(logged, tc.want) || strings.Count(logged, "\n") != min(len(tc.want), 1) {
			t.Errorf("%v: logged %s, want %q", tc.args, logged, tc.want)
		}
	}
}
