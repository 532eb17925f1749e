// Package framework starts a server for upstream's integration tests. Its files replace those of the same names of
// k8s.io/kubernetes/test/integration/framework, and have the exported names of these.
package framework

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	client "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/pkg/controlplane"
	"k8s.io/kubernetes/test/e2e/invariants/metrics"
	netutils "k8s.io/utils/net"

	"github.com/rowlock/rowlock/e2e/peers/kubernetes/integration/server"
)

// TestServerSetup is what a test changes of a server.
type TestServerSetup struct {
	ModifyServerRunOptions func(*options.ServerRunOptions)
	// ModifyServerConfig replaces parts of the server by code of the test. Authenticators and authorizers are asked by webhooks; others are not supported.
	ModifyServerConfig func(*controlplane.Config)
	// DisableInvariantChecks turns the checks at the end of the test off.
	DisableInvariantChecks bool
}

// TearDownFunc stops a server.
type TearDownFunc func()

// StartTestServer starts a server with the options that upstream's function gives kube-apiserver and those of the test, and returns a client, its
// configuration, and a function that stops the server.
func StartTestServer(ctx context.Context, t testing.TB, setup TestServerSetup) (client.Interface, *rest.Config, TearDownFunc) {
	t.Helper()
	dir, err := os.MkdirTemp("", "test-integration-"+strings.ReplaceAll(t.Name(), "/", "_"))
	if err != nil {
		t.Fatal(err)
	}
	// Tests set features in the variable of the process, or in the options.
	gate := utilfeature.DefaultMutableFeatureGate.DeepCopy()
	opts, err := defaultOptions(dir)
	if err != nil {
		t.Fatal(err)
	}
	registry := basecompatibility.NewComponentGlobalsRegistry()
	if err := registry.Register(basecompatibility.DefaultKubeComponent, basecompatibility.NewEffectiveVersionFromString("1.37", "", ""), gate); err != nil {
		t.Fatal(err)
	}
	opts.GenericServerRunOptions.ComponentGlobalsRegistry = registry
	if setup.ModifyServerRunOptions != nil {
		setup.ModifyServerRunOptions(opts)
	}
	hooks := applyHooks(t, dir, opts, setup.ModifyServerConfig)
	s, err := server.Start(t, server.Options{Dir: dir, Prefix: opts.Etcd.StorageConfig.Prefix, Args: append(server.Flags(opts), server.Gates(gate)...)})
	if err != nil {
		t.Fatal(err)
	}
	config := hooks.clientConfig(s.ClientConfig(), dir)
	clientset, err := client.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return clientset, config, func() {
		if !setup.DisableInvariantChecks && ctx.Err() == nil {
			if err := metrics.CheckMetricInvariants(ctx, clientset, false); err != nil {
				t.Errorf("metrics: %v", err)
			}
		}
		s.Stop()
		if err := os.RemoveAll(dir); err != nil {
			t.Log(err)
		}
	}
}

// defaultOptions are the options that upstream's function gives kube-apiserver.
func defaultOptions(dir string) (*options.ServerRunOptions, error) {
	proxies, err := server.FrontProxyAuthority()
	if err != nil {
		return nil, err
	}
	clients, err := server.ClientAuthority()
	if err != nil {
		return nil, err
	}
	key, err := server.WriteTokenKey(dir)
	if err != nil {
		return nil, err
	}
	proxyFile, clientFile := filepath.Join(dir, "proxy-ca.crt"), filepath.Join(dir, "client-ca.crt")
	if err := errors.Join(proxies.Write(proxyFile), clients.Write(clientFile)); err != nil {
		return nil, err
	}
	opts := options.NewServerRunOptions()
	opts.SecureServing.BindAddress = netutils.ParseIPSloppy("127.0.0.1")
	opts.SecureServing.ServerCert.CertDirectory = dir
	opts.ServiceAccountSigningKeyFile = key
	opts.Etcd.StorageConfig.Prefix = filepath.Join("/", uuid.New().String(), "registry")
	opts.Etcd.StorageConfig.Transport.ServerList = []string{GetEtcdURL()}
	opts.ServiceClusterIPRanges = "10.0.0.0/24"
	opts.EndpointReconcilerType = "none"
	opts.Authentication.RequestHeader.UsernameHeaders = []string{"X-Remote-User"}
	opts.Authentication.RequestHeader.GroupHeaders = []string{"X-Remote-Group"}
	opts.Authentication.RequestHeader.ExtraHeaderPrefixes = []string{"X-Remote-Extra-"}
	opts.Authentication.RequestHeader.AllowedNames = []string{"kube-aggregator"}
	opts.Authentication.RequestHeader.ClientCAFile = proxyFile
	opts.Authentication.APIAudiences = []string{"https://foo.bar.example.com"}
	opts.Authentication.ServiceAccounts.Issuers = []string{"https://foo.bar.example.com"}
	opts.Authentication.ServiceAccounts.KeyFiles = []string{key}
	opts.Authentication.ClientCert.ClientCA = clientFile
	opts.Authorization.Modes = []string{"Node", "RBAC"}
	return opts, nil
}
