// Package testing starts a server for upstream's integration tests. It has the exported names of the package k8s.io/kubernetes/cmd/kube-apiserver/app/testing,
// whose only file this one replaces.
package testing

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/spf13/pflag"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storageversion"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/test/e2e/invariants/metrics"
	"k8s.io/kubernetes/test/utils/ktesting"

	"github.com/rowlock/rowlock/e2e/peers/kubernetes/integration/server"
)

// TearDownFunc stops a server.
type TearDownFunc func()

// TestServerInstanceOptions are the options of a server that are no flags.
type TestServerInstanceOptions struct {
	// SkipHealthzCheck returns the server before it is healthy.
	SkipHealthzCheck bool
	// DisableInvariantChecks turns the checks at the end of the test off.
	DisableInvariantChecks bool
	// EnableCertAuth gives the server authorities of clients and of front proxies.
	EnableCertAuth bool
	// StorageVersionWrapFunc is not supported: it replaces a part of the server.
	StorageVersionWrapFunc func(storageversion.Manager) storageversion.Manager
	// ProxyCA is the authority of front proxies.
	ProxyCA *ProxyCA
	// BinaryVersion is not supported: it makes the server believe that it is of an earlier release.
	BinaryVersion string
	// RequestTimeout is how long a request may take.
	RequestTimeout time.Duration
}

// TestServer is a running server.
type TestServer struct {
	ClientConfig      *restclient.Config
	ServerOpts        *options.ServerRunOptions
	TearDownFn        TearDownFunc
	TmpDir            string
	EtcdClient        *clientv3.Client // see server.EtcdClient
	EtcdStoragePrefix string
}

// Logger is the part of testing.TB that helpers use.
type Logger interface {
	Helper()
	Errorf(format string, args ...interface{})
	Fatalf(format string, args ...interface{})
	Logf(format string, args ...interface{})
	Cleanup(func())
}

// ProxyCA is an authority of front proxies.
type ProxyCA struct {
	ProxySigningCert *x509.Certificate
	ProxySigningKey  *rsa.PrivateKey
}

// NewDefaultTestServerOptions returns options with certificates for authentication.
func NewDefaultTestServerOptions() *TestServerInstanceOptions {
	return &TestServerInstanceOptions{EnableCertAuth: true}
}

// StartTestServerOrDie is StartTestServer for tests that need the server.
func StartTestServerOrDie(t testing.TB, instanceOptions *TestServerInstanceOptions, flags []string, storageConfig *storagebackend.Config) *TestServer {
	result, err := StartTestServer(t, instanceOptions, flags, storageConfig)
	if err != nil {
		t.Fatalf("failed to launch server: %v", err)
	}
	return &result
}

// StartTestServer starts a server with the given flags and those that upstream's function gives kube-apiserver.
func StartTestServer(t ktesting.TB, instanceOptions *TestServerInstanceOptions, customFlags []string, storageConfig *storagebackend.Config) (result TestServer, err error) {
	if instanceOptions == nil {
		instanceOptions = NewDefaultTestServerOptions()
	}
	if instanceOptions.StorageVersionWrapFunc != nil || instanceOptions.BinaryVersion != "" {
		return result, errors.New("StorageVersionWrapFunc and BinaryVersion change the server within the process of the test")
	}
	result.TmpDir, err = os.MkdirTemp("", "kubernetes-kube-apiserver")
	if err != nil {
		return result, err
	}
	args, err := arguments(result.TmpDir, instanceOptions, customFlags)
	if err != nil {
		return result, err
	}
	s, err := server.Start(t, server.Options{Dir: result.TmpDir, Prefix: storageConfig.Prefix, Args: args, SkipHealth: instanceOptions.SkipHealthzCheck})
	if err != nil {
		return result, err
	}
	if result.ServerOpts, err = serverOptions(s.URL, result.TmpDir, customFlags, storageConfig); err != nil {
		return result, err
	}
	result.ClientConfig = s.ClientConfig()
	result.ClientConfig.QPS, result.ClientConfig.Burst = 1000, 10000
	result.EtcdStoragePrefix = storageConfig.Prefix
	if result.EtcdClient, err = server.EtcdClient(s.ClientConfig()); err != nil {
		return result, err
	}
	client, err := kubernetes.NewForConfig(result.ClientConfig)
	if err != nil {
		return result, err
	}
	result.TearDownFn = func() {
		defer os.RemoveAll(result.TmpDir)
		defer s.Stop()
		if instanceOptions.DisableInvariantChecks {
			return
		}
		if err := metrics.CheckMetricInvariants(context.Background(), client, false); err != nil {
			t.Errorf("metrics: %v", err)
		}
	}
	return result, nil
}

// forced are flags that upstream's function sets itself, whatever the test says.
var forced = []string{"service-account-issuer", "service-account-key-file", "service-account-signing-key-file"}

// arguments returns the arguments of the server: the defaults of upstream's function, and the flags of the test.
func arguments(dir string, instanceOptions *TestServerInstanceOptions, custom []string) ([]string, error) {
	key, err := server.WriteTokenKey(dir)
	if err != nil {
		return nil, err
	}
	args := append([]string{"--service-cluster-ip-range=10.0.0.0/16", server.Loopback(dir), "--service-account-issuer=https://foo.bar.example.com",
		"--service-account-key-file=" + key, "--service-account-signing-key-file=" + key},
		server.Gates(utilfeature.DefaultMutableFeatureGate.DeepCopy())...)
	if instanceOptions.RequestTimeout > 0 {
		args = append(args, "--request-timeout="+instanceOptions.RequestTimeout.String())
	}
	_, advertised := server.Value(custom, "advertise-address")
	if _, reconciled := server.Value(custom, "endpoint-reconciler-type"); !advertised && !reconciled {
		args = append(args, "--endpoint-reconciler-type=none")
	}
	custom = server.Without(custom, forced...)
	if !instanceOptions.EnableCertAuth {
		return append(args, custom...), nil
	}
	certificates, err := certificateArguments(dir, instanceOptions.ProxyCA, custom)
	if err != nil {
		return nil, err
	}
	// Upstream's function replaces the options of these flags after they were bound to them.
	custom = server.Without(custom, "requestheader-client-ca-file", "requestheader-allowed-names")
	return append(append(args, certificates...), custom...), nil
}

// certificateArguments returns the flags of the authorities, and of the certificate that the server shows aggregated servers.
func certificateArguments(dir string, proxyCA *ProxyCA, custom []string) ([]string, error) {
	proxies, err := server.FrontProxyAuthority()
	if err != nil {
		return nil, err
	}
	if proxyCA != nil {
		proxies = server.Authority{Cert: proxyCA.ProxySigningCert, Key: proxyCA.ProxySigningKey}
	}
	clients, err := server.ClientAuthority()
	if err != nil {
		return nil, err
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(proxies.Write(file("proxy-ca.crt")), clients.Write(file("client-ca.crt")), writeProxyClient(dir, proxies)); err != nil {
		return nil, err
	}
	args := []string{"--client-ca-file=" + file("client-ca.crt"), "--requestheader-client-ca-file=" + file("proxy-ca.crt"),
		"--proxy-client-cert-file=" + file("misty-crt.crt"), "--proxy-client-key-file=" + file("misty-crt.key"), "--requestheader-allowed-names=ash,misty,brock"}
	for name, value := range map[string]string{"requestheader-username-headers": "x-remote-user", "requestheader-group-headers": "x-remote-group",
		"requestheader-extra-headers-prefix": "x-remote-extra-"} {
		if _, given := server.Value(custom, name); !given {
			args = append(args, "--"+name+"="+value)
		}
	}
	return args, nil
}

// writeProxyClient writes a certificate of a front proxy for the server, with one of the allowed names.
func writeProxyClient(dir string, authority server.Authority) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := x509.Certificate{
		Subject:               pkix.Name{CommonName: "misty"},
		SerialNumber:          big.NewInt(time.Now().UnixNano()),
		NotBefore:             authority.Cert.NotBefore,
		NotAfter:              time.Now().Add(24 * time.Hour),
		KeyUsage:              x509.KeyUsageKeyEncipherment | x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, authority.Cert, key.Public(), authority.Key)
	if err != nil {
		return err
	}
	text, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return err
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return errors.Join(os.WriteFile(filepath.Join(dir, "misty-crt.crt"), block, 0o600), keyutil.WriteKey(filepath.Join(dir, "misty-crt.key"), text))
}

// serverOptions returns the options that kube-apiserver would have, for tests that read them.
func serverOptions(address, dir string, custom []string, storageConfig *storagebackend.Config) (*options.ServerRunOptions, error) {
	o := options.NewServerRunOptions()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	for _, set := range o.Flags().FlagSets {
		flags.AddFlagSet(set)
	}
	flags.ParseErrorsAllowlist.UnknownFlags = true
	if err := flags.Parse(server.Without(custom, "feature-gates", "emulated-version")); err != nil {
		return nil, err
	}
	parsed, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	if o.SecureServing.BindPort, err = strconv.Atoi(parsed.Port()); err != nil {
		return nil, err
	}
	o.SecureServing.BindAddress = net.IPv4(127, 0, 0, 1)
	o.SecureServing.ServerCert.CertDirectory = dir
	if o.SecureServing.ServerCert.CertKey.CertFile == "" {
		o.SecureServing.ServerCert.CertKey.CertFile = filepath.Join(dir, "apiserver.crt")
		o.SecureServing.ServerCert.CertKey.KeyFile = filepath.Join(dir, "apiserver.key")
	}
	o.Etcd.StorageConfig = *storageConfig
	return o, nil
}

// GetEtcdClients fails.
func GetEtcdClients(storagebackend.TransportConfig) (*clientv3.Client, clientv3.KV, error) {
	return nil, nil, fmt.Errorf("etcd clients: %w", server.ErrNoEtcd)
}
