package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/rowlock/rowlock/resources/upstream"
)

// A link to the program runs the command with the name of the link.
func TestArguments(t *testing.T) {
	for name, want := range map[string][]string{
		"/usr/bin/rowlock": {"--x"}, "/assets/kube-apiserver": {"kube-apiserver", "--x"}, "etcd": {"etcd", "--x"},
		"kube-apiserver.exe": {"kube-apiserver", "--x"}, "kube-apiserver-2": {"--x"},
	} {
		if diff := cmp.Diff(want, arguments([]string{name, "--x"})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// The flags are those of the linked release. `make flags` writes them from kube-apiserver, which takes minutes to build:
// this test detects that it was not run for a release.
func TestKubeAPIServerFlagsAreFresh(t *testing.T) {
	first, _, _ := strings.Cut(kubeAPIServerFlags, "\n")
	if want := "# of kube-apiserver " + upstream.Release; first != want {
		t.Errorf("kubeapiserver_flags.txt begins with %q, want %q: make generate", first, want)
	}
}

// Every flag of kube-apiserver v1.37.1 is accepted, and refused with a value that kube-apiserver would refuse.
func TestKubeAPIServerFlags(t *testing.T) {
	values := map[string]string{"int": "7", "float": "0.5", "float32": "0.5", "duration": "1s", "ip": "192.0.2.1", "int32Slice": "1,2",
		"portRange": "30000-30100"}
	special := map[string]string{"feature-gates": "kube:CBORServingAndStorage=true", "logging-format": "text", "runtime-config": "api/beta=true",
		"service-cluster-ip-range": "10.0.0.0/16", "oidc-required-claim": "a=b", "v": "1", "tls-sni-cert-key": "x,y:z", "allow-metric-labels": "a,b=c"}
	line := []string{"kube-apiserver", "", "--apiserver-count=3", "--default-watch-cache-size=9", "--kubelet-port=7", "--kubelet-read-only-port=8"}
	for name, kind := range eachKubeAPIServerFlag() {
		value, ok := special[name]
		switch {
		case name == "version":
			continue
		case ok:
		case kind == "bool":
			value = "true"
		default:
			if value, ok = values[kind]; !ok {
				value = "x"
			}
		}
		line = append(line, fmt.Sprintf("--%s=%s", name, value))
		if bad, ok := map[string]string{"int": "many", "float": "many", "duration": "long", "ip": "here", "bool": "maybe"}[kind]; ok {
			code, _, stderr := command(t, "kube-apiserver", fmt.Sprintf("--%s=%s", name, bad))
			if want := fmt.Sprintf("invalid argument %q for ", bad); code != exitFailure || !strings.Contains(stderr, want) {
				t.Errorf("--%s=%s: exit code %d, stderr %q, want %q", name, bad, code, stderr, want)
			}
		}
	}
	if len(line) < 170 {
		t.Fatalf("only %d flags", len(line))
	}
	code, stdout, stderr := command(t, append(line, "--version")...)
	var said strings.Builder
	for _, f := range retiredKubeAPIServerFlags {
		said.WriteString("Flag --" + f.name + " has been deprecated, " + f.deprecated + "\n")
	}
	said.WriteString("Flag --admission-control has been deprecated, Use --enable-admission-plugins or --disable-admission-plugins instead. Will be removed in a future version.\n")
	if code != 0 || stdout != "Kubernetes "+upstream.Release+"\n" || stderr != said.String() {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// The values of a list are split at commas by the flags that do so in kube-apiserver, and by no others: a name of a file may have commas.
func TestListsAreSplitAsByKubeAPIServer(t *testing.T) {
	lists := map[string]string{"stringArray": "stringArray", "strings": "stringSlice"} // a type by its name in a help
	for _, cmd := range []*cobra.Command{newServeCommand(), newKubeAPIServerCommand()} {
		found := 0
		for name, kind := range eachKubeAPIServerFlag() {
			f := cmd.Flags().Lookup(name)
			if want := lists[kind]; f != nil && want != "" {
				found++
				if have := f.Value.Type(); have != want {
					t.Errorf("%s: --%s is a %s, and not a %s", cmd.Name(), name, have, want)
				}
			}
		}
		if found < 15 {
			t.Errorf("%s has %d of these flags", cmd.Name(), found)
		}
	}
}

// Privileged containers are refused unless the flag allows them, as by kube-apiserver; 'rowlock serve' allows them.
func TestKubeAPIServerRefusesPrivileged(t *testing.T) {
	for line, want := range map[string]bool{"": false, "--allow-privileged": true, "--allow-privileged=false": false} {
		var o kubeAPIServerOptions
		cmd := &cobra.Command{}
		addSections(cmd, o.sections())
		if err := cmd.ParseFlags(strings.Fields(line)); err != nil || o.serve.allowPrivileged != want {
			t.Errorf("with %q, they are allowed: %t, %v", line, o.serve.allowPrivileged, err)
		}
	}
}

// An egress selector with a proxy is refused, so that no user relies on it.
func TestEgressSelector(t *testing.T) {
	file := filepath.Join(t.TempDir(), "egress.yaml")
	for connection, want := range map[string]string{
		"{proxyProtocol: Direct}": "--secure-port 0 must be", // the file is valid, and another error follows
		"{proxyProtocol: HTTPConnect, transport: {uds: {udsName: /x}}}": `connections of "cluster" by HTTPConnect are not supported, only Direct`,
	} {
		text := "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n- name: cluster\n  connection: " + connection
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, _, stderr := command(t, "kube-apiserver", "--etcd-servers=x", "--secure-port=0", "--egress-selector-config-file", file)
		if code != exitFailure || !strings.Contains(stderr, want) || strings.Contains(stderr, "Direct") != strings.Contains(want, "Direct") {
			t.Errorf("%s: exit code %d, stderr %q, want %q", connection, code, stderr, want)
		}
	}
}

// kube-apiserver v1.37.1 ends with these errors, alone or among others.
func TestKubeAPIServerRefusals(t *testing.T) {
	turnOnAgain(t, "UnknownVersionInteroperabilityProxy")
	t.Setenv("TMPDIR", t.TempDir())
	for line, want := range map[string]string{
		"--nope":                           "unknown flag: --nope",
		"-z":                               "unknown shorthand flag: 'z' in -z",
		"foo":                              `"kube-apiserver" does not take any arguments, got ["foo"]`,
		"--kubelet-port=-1":                `invalid argument "-1" for "--kubelet-port" flag: strconv.ParseUint: parsing "-1": invalid syntax`,
		"--secure-port":                    "flag needs an argument: --secure-port",
		"--version=v1.36.0-own":            `invalid argument "v1.36.0-own" for "--version" flag: version "v1.36.0-own" must match major/minor/patch of default version "` + upstream.Release + `"`,
		"--version=own":                    `invalid argument "own" for "--version" flag: strconv.ParseBool: parsing "own": invalid syntax`,
		"":                                 "--etcd-servers must be specified",
		"--etcd-servers=x --secure-port=0": "--secure-port 0 must be between 1 and 65535, inclusive. It cannot be turned off with 0",
		"--etcd-servers=x --max-requests-inflight=-1":                                                        "--max-requests-inflight can not be negative value",
		"--etcd-servers=x --request-timeout=-1s":                                                             "--request-timeout can not be negative value",
		"--etcd-servers=x --enable-admission-plugins=Foo":                                                    `enable-admission-plugins plugin "Foo" is unknown`,
		"--etcd-servers=x --enable-admission-plugins=Foo --disable-admission-plugins=Bar":                    `[enable-admission-plugins plugin "Foo" is unknown, disable-admission-plugins plugin "Bar" is unknown]`,
		"--etcd-servers=x --enable-admission-plugins=Priority --disable-admission-plugins=Priority":          "[Priority] in enable-admission-plugins and disable-admission-plugins overlapped",
		"--etcd-servers=x --feature-gates=Colour=true":                                                       "unrecognized feature gate: Colour",
		"--etcd-servers=x --feature-gates=wardle:Colour=true":                                                "component not registered: wardle",
		"--etcd-servers=x --runtime-config=foo/v1=true":                                                      "unknown api groups foo/v1",
		"--etcd-servers=x --datastore=mysql://x":                                                             "--datastore",
		"--etcd-servers=x --max-requests-inflight=0 --max-mutating-requests-inflight=0":                      "they must add up to something positive",
		"--etcd-servers=x --min-request-timeout=-1":                                                          "--min-request-timeout can not be negative value",
		"--etcd-servers=x --shutdown-delay-duration=-1s":                                                     "--shutdown-delay-duration can not be negative value",
		"--etcd-servers=x --livez-grace-period=-1s":                                                          "--livez-grace-period can not be a negative value",
		"--etcd-servers=x --storage-initialization-timeout=-1s":                                              "--storage-initialization-timeout can not be negative value",
		"--etcd-servers=x --shutdown-watch-termination-grace-period=-1s":                                     "shutdown-watch-termination-grace-period, if provided, can not be a negative value",
		"--etcd-servers=x --goaway-chance=0.03":                                                              "--goaway-chance can not be less than 0 or greater than 0.02",
		"--etcd-servers=x --cors-allowed-origins=example.com":                                                "regular expression does not pin to start/end of host in the origin header",
		"--etcd-servers=x --cors-allowed-origins=//(x$":                                                      "--cors-allowed-origins has an invalid regular expression",
		"--etcd-servers=x --strict-transport-security-directives=age=1":                                      "--strict-transport-security-directives invalid, allowed values: max-age=expireTime, includeSubDomains, preload",
		"--etcd-servers=x --tls-min-version=VersionTLS9":                                                     `unknown tls version "VersionTLS9"`,
		"--etcd-servers=x --tls-cipher-suites=ROT13":                                                         "Cipher suite ROT13 not supported or doesn't exist",
		"--etcd-servers=x --tls-curve-preferences=0":                                                         "curve preference 0 is out of range",
		"--etcd-servers=x --tls-sni-cert-key=x":                                                              "expected comma separated certificate and key file paths",
		"--etcd-servers=x --tls-sni-cert-key=x,y":                                                            "x: no such file or directory",
		"--etcd-servers=x --service-account-signing-endpoint=x":                                              "--service-account-signing-endpoint is not supported",
		"--etcd-servers=x --egress-selector-config-file=x":                                                   "failed to read egress selector config: unable to read egress selector configuration",
		"--etcd-servers=x --allow-metric-labels=a=b":                                                         "must have keys with format `metricName,labelName`",
		"--etcd-servers=x --disabled-metrics=a-b":                                                            `metrics.disabledMetrics: Invalid value: ["a-b"]: must be fully qualified metric names`,
		"--etcd-servers=x --show-hidden-metrics-for-version=1.2":                                             `metrics.showHiddenMetricsForVersion: Invalid value: "1.2": must be omitted or have the value`,
		"--etcd-servers=x --allow-metric-labels-manifest=none":                                               "failed to read allow list manifest: open none",
		"--etcd-servers=x --endpoint-reconciler-type=consul":                                                 "Reconciler not implemented: consul",
		"--etcd-servers=x --kubernetes-service-node-port=65536":                                              "--kubernetes-service-node-port 65536 must be between 0 and 65535, inclusive. If 0, the Kubernetes master service will be of type ClusterIP, kubernetes service node port range 30000-32767 doesn't contain 65536",
		"--etcd-servers=x --kubernetes-service-node-port=80":                                                 "kubernetes service node port range 30000-32767 doesn't contain 80",
		"--etcd-servers=x --feature-gates=UnknownVersionInteroperabilityProxy=false --peer-advertise-port=1": "--peer-advertise-port requires UnknownVersionInteroperabilityProxy feature to be turned on",
		"--etcd-servers=x --v=loud":                                                                          `invalid argument "loud" for "-v, --v" flag`,
	} {
		code, stdout, stderr := command(t, append([]string{"kube-apiserver"}, strings.Fields(line)...)...)
		if code != exitFailure || stdout != "" || !strings.HasPrefix(stderr, "Error: ") || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q, want %q", line, code, stdout, stderr, want)
		}
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// kubeAPIServer is a running 'rowlock kube-apiserver'.
type kubeAPIServer struct {
	url    string
	client *http.Client
	stop   context.CancelFunc
	ended  chan int
	stderr bytes.Buffer
}

// startKubeAPIServer starts one on a free port, with a certificate directory whose certificate clients trust, and waits
// until it is ready.
func startKubeAPIServer(t *testing.T, certDir string, args ...string) *kubeAPIServer {
	t.Helper()
	address := freeAddress(t)
	_, port, _ := net.SplitHostPort(address)
	s := &kubeAPIServer{url: "https://" + address, ended: make(chan int, 1)}
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	t.Cleanup(s.stop)
	line := slices.Concat([]string{"kube-apiserver", "--bind-address=127.0.0.1", "--secure-port=" + port, "--cert-dir=" + certDir}, args)
	go func() { s.ended <- run(ctx, line, io.Discard, &s.stderr) }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		select {
		case code := <-s.ended:
			t.Fatalf("ended with %d before it was ready: %s", code, s.stderr.String())
		default:
		}
		if s.client == nil {
			s.client = trusting(filepath.Join(certDir, "apiserver.crt"))
			continue
		}
		if response, err := s.client.Get(s.url + "/readyz"); err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK || response.StatusCode == http.StatusUnauthorized { // AlwaysAllow disables anonymous requests
				break
			}
		}
	}
	return s
}

// trusting returns a client that trusts certificates signed by the one in a file, or that one itself; nil while the file does not exist.
func trusting(file string) *http.Client {
	pem, err := os.ReadFile(file)
	pool := x509.NewCertPool()
	if err != nil || !pool.AppendCertsFromPEM(pem) {
		return nil
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
}

// end stops it by a signal, and returns its log.
func (s *kubeAPIServer) end(t *testing.T) string {
	t.Helper()
	s.client.CloseIdleConnections()
	s.stop()
	if code := <-s.ended; code != 0 {
		t.Errorf("ended with %d", code)
	}
	return s.stderr.String()
}

// turnOnAgain turns a gate on when a test is over that starts a server without it: gates are those of the process.
func turnOnAgain(t *testing.T, gate string) {
	t.Cleanup(func() {
		if err := upstream.SetFeatureGates(map[string]bool{gate: true}); err != nil {
			t.Error(err)
		}
	})
}

// Errors in the audit flags have kube-apiserver's messages, and no policy is ignored.
func TestAuditFlags(t *testing.T) {
	for want, args := range map[string][]string{
		`invalid audit log mode x, allowed modes are "batch,blocking,blocking-strict"`: {"--audit-log-path=-", "--audit-log-mode=x"},
		"loading audit policy file: failed to read file path \"/nowhere\"":             {"--audit-policy-file=/nowhere"},
	} {
		args = append([]string{"kube-apiserver", "--etcd-servers=http://127.0.0.1:1", "--secure-port=1"}, args...)
		if code, _, stderr := command(t, args...); code != exitFailure || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, stderr %q", args, code, stderr)
		}
	}
}

// Enabling a feature that needs a missing controller of kube-apiserver, or removed versions, logs a warning.
func TestTurnedOnWithoutEffect(t *testing.T) {
	t.Setenv(serveRemoved, "true")
	t.Cleanup(func() {
		if err := upstream.SetFeatureGates(map[string]bool{"CoordinatedLeaderElection": false}); err != nil {
			t.Error(err)
		}
	})
	s := startKubeAPIServer(t, t.TempDir(), "--etcd-servers=http://127.0.0.1:1", "--feature-gates=kube:CoordinatedLeaderElection=true,WatchList=true,StorageVersionAPI=false")
	if logged, want := s.end(t), `level=WARN msg="turned on without effect" names="CoordinatedLeaderElection `+serveRemoved+`"`; !strings.Contains(logged, want) {
		t.Errorf("logged %s, want %s", logged, want)
	}
}

func TestKubeAPIServer(t *testing.T) {
	temporary, certDir, dataDir := t.TempDir(), filepath.Join(t.TempDir(), "certs"), t.TempDir()
	t.Setenv("TMPDIR", temporary)
	s := startKubeAPIServer(t, certDir, "--etcd-servers=http://127.0.0.1:1", "--authorization_mode=RBAC", "--etcd-prefix=/registry",
		"--enable-admission-plugins=AlwaysPullImages,NamespaceLifecycle", "--service-account-issuer=api", "--service-account-issuer=other",
		"--version="+upstream.Release+"-own")
	t.Cleanup(func() { upstream.ReportVersion(upstream.Release) })
	response, err := s.client.Get(s.url + "/version")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(response.Body)
	response.Body.Close()
	if want := `"gitVersion": "` + upstream.Release + `-own"`; !strings.Contains(string(body), want) {
		t.Errorf("/version is %s, want %s", body, want)
	}
	logged := s.end(t)
	if want := `msg="accepted without effect" flags=--etcd-prefix`; strings.Count(logged, "\n") != 1 || !strings.Contains(logged, want) {
		t.Errorf("logged %s, want one line with %s", logged, want)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	made, err := os.ReadFile(filepath.Join(certDir, "apiserver.crt"))
	if err != nil {
		t.Fatal(err)
	}

	// With a database of its own it keeps its objects, and needs no etcd; the certificate is used again.
	s = startKubeAPIServer(t, certDir, "--datastore=sqlite://"+filepath.Join(dataDir, "my.db"))
	if logged := s.end(t); logged != "" {
		t.Errorf("logged %s", logged)
	}
	if now, err := os.ReadFile(filepath.Join(certDir, "apiserver.crt")); err != nil || !bytes.Equal(made, now) {
		t.Errorf("the certificate was made again: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dataDir, "my.db")); err != nil {
		t.Error(err)
	}
}

func TestEnvtestAssets(t *testing.T) {
	dir, file := filepath.Join(t.TempDir(), "assets"), filepath.Join(t.TempDir(), "program")
	for _, content := range []string{"old", "new", "new"} {
		// The file is written as a new file, as a compiler does.
		if err := os.RemoveAll(file); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := writeEnvtestAssets(dir, file, file); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"kube-apiserver", "etcd", "kubectl"} {
			if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != content {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 3 {
		t.Errorf("%v, %v", entries, err)
	}
	if err := writeEnvtestAssets(dir, file, filepath.Join(dir, "kubectl")); err != nil {
		t.Errorf("a kubectl that is there already: %v", err)
	}
	if code, _, stderr := command(t, "envtest-assets"); code != exitUsage || !strings.Contains(stderr, "a directory is needed") {
		t.Errorf("without a directory: %d, %s", code, stderr)
	}
}

func TestEtcd(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	url := "http://" + freeAddress(t)
	go func() {
		ended <- run(ctx, []string{"etcd", "--unsafe-no-fsync=true", "--data-dir", "/nowhere", "--listen-client-urls=" + url}, io.Discard, io.Discard)
	}()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		select {
		case code := <-ended:
			t.Fatalf("ended with %d", code)
		default:
		}
		response, err := http.Get(url + "/health")
		if err != nil {
			continue
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK || string(body) != `{"health":"true","reason":""}` {
			t.Errorf("%s %s %v", response.Status, body, err)
		}
		break
	}
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("ended with %d", code)
	}
}
