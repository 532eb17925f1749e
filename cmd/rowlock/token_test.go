package main

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/rowlock/rowlock/sqlstore/pgtest"
)

// must runs a command that has to succeed, and returns its output.
func must(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := command(t, args...)
	if code != 0 || stderr != "" {
		t.Fatalf("rowlock %s: ended with %d, %s", strings.Join(args, " "), code, stderr)
	}
	return strings.TrimSpace(stdout)
}

// tokenID returns the part of a token that is not secret.
func tokenID(token string) string { return strings.Split(token+"__", "_")[1] }

// A token is valid from the next request on, and a revoked one is refused from the next request on, on every server of the
// database, whether it was created through a server or in the database.
func TestTokensOfUsers(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) {
		dir := t.TempDir()
		p := start(t, "--data-dir", dir)
		checkTokens(t, []string{"--data-dir", dir}, p)
		kept := must(t, "token", "create", "--data-dir", dir, "--user", "jane")
		p.end()
		offline := must(t, "token", "create", "--data-dir", dir, "--user", "john")
		must(t, "token", "revoke", "--data-dir", dir, tokenID(kept))
		if list := must(t, "token", "list", "--data-dir", dir); !strings.Contains(list, tokenID(offline)) || strings.Contains(list, tokenID(kept)) {
			t.Errorf("listed %s", list)
		}
		p = start(t, "--data-dir", dir)
		if who := whoami(t, p.as(t, offline)); who != "john" {
			t.Errorf("a token that was made while the server was away: is %s", who)
		}
		if who := whoami(t, p.as(t, kept)); who != "Unauthorized" {
			t.Errorf("a token that was revoked while the server was away: is %s", who)
		}
	})
	t.Run("Postgres", func(t *testing.T) {
		cluster, err := pgtest.New()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cluster.Stop() })
		one, other := t.TempDir(), t.TempDir()
		first, second := start(t, "--data-dir", one, "--datastore", cluster.URL()), start(t, "--data-dir", other, "--datastore", cluster.URL())
		checkTokens(t, []string{"--data-dir", one}, first, second)
		checkTokens(t, []string{"--kubeconfig", second.kubeconfig}, first, second)
		checkTokens(t, []string{"--data-dir", one, "--datastore", cluster.URL()}, first, second)
	})
}

func checkTokens(t *testing.T, where []string, servers ...*process) {
	t.Helper()
	with := func(args ...string) []string { return slices.Concat(args, where) }
	token := must(t, with("token", "create", "--user", "jane", "--group", "team", "--group", "all", "--ttl", "1h")...)
	for _, p := range servers {
		if who := whoami(t, p.as(t, token)); who != "jane" {
			t.Errorf("is %s", who)
		}
	}
	if list := must(t, with("token", "list")...); !strings.Contains(list, tokenID(token)+"   jane   team,all   ") || strings.Contains(list, token) {
		t.Errorf("listed %s", list)
	}
	must(t, with("token", "revoke", tokenID(token))...)
	for _, p := range servers {
		// A read at the most recent revision makes the server see all earlier writes.
		if _, err := p.client(t).CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		if who := whoami(t, p.as(t, token)); who != "Unauthorized" {
			t.Errorf("revoked, is %s", who)
		}
	}
	if code, _, stderr := command(t, with("token", "revoke", tokenID(token))...); code != exitFailure || !strings.Contains(stderr, tokenID(token)) {
		t.Errorf("revoked twice: %d, %s", code, stderr)
	}
}

// writeKubeconfig writes a printed kubeconfig into a file.
func writeKubeconfig(t *testing.T, text string) *process {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return &process{kubeconfig: path}
}

// A kubeconfig for a user authenticates as that user only, however it was created, and does not change the administrator's.
func TestKubeconfigOfUsers(t *testing.T) {
	dir := t.TempDir()
	p := start(t, "--data-dir", dir)
	if _, err := p.client(t).CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "ci"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	before := must(t, "kubeconfig", "--data-dir", dir)
	for _, tc := range []struct{ args, user string }{
		{"--data-dir " + dir + " --user jane --group team", "jane"},
		{"--data-dir " + dir + " --user jane --group team --token", "jane"},
		{"--kubeconfig " + p.kubeconfig + " --user jane --group team --ttl 1h", "jane"},
		{"--kubeconfig " + p.kubeconfig + " --user system:serviceaccount:default:ci --ttl 1h", "system:serviceaccount:default:ci"},
		{"--data-dir " + dir + " --user root --group system:masters --allow-system-masters --ttl 1m", "root"},
		{"--kubeconfig " + p.kubeconfig + " --user root --group system:masters --allow-system-masters --token --ttl 1m", "root"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			own := writeKubeconfig(t, must(t, strings.Fields("kubeconfig --namespace team "+tc.args)...))
			review, err := own.client(t).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if who := review.Status.UserInfo; who.Username != tc.user || strings.Contains(tc.args, "team") && !slices.Contains(who.Groups, "team") && tc.user == "jane" {
				t.Errorf("is %v", who)
			}
			config, err := clientcmd.LoadFromFile(own.kubeconfig)
			if err != nil {
				t.Fatal(err)
			}
			if namespace := config.Contexts[config.CurrentContext].Namespace; namespace != "team" || len(config.AuthInfos) != 1 {
				t.Errorf("in namespace %q, with the credentials of %d", namespace, len(config.AuthInfos))
			}
			_, err = own.client(t).CoreV1().Secrets("kube-system").List(t.Context(), metav1.ListOptions{})
			if masters := tc.user == "root"; masters != (err == nil) {
				t.Errorf("lists Secrets: %v", err)
			}
		})
	}
	// The signer limits a certificate to a year.
	if code, _, stderr := command(t, "kubeconfig", "--kubeconfig", p.kubeconfig, "--user", "root", "--group", "system:masters", "--allow-system-masters"); code != exitUsage ||
		!strings.Contains(stderr, "use --token, or --data-dir") {
		t.Errorf("a certificate of system:masters by a CertificateSigningRequest: %d %q", code, stderr)
	}
	for ttl, told := range map[string]bool{"1h": false, "720h": false, "99999h": true} {
		code, _, stderr := command(t, "kubeconfig", "--kubeconfig", p.kubeconfig, "--user", "jane", "--ttl", ttl)
		if code != 0 || strings.Contains(stderr, "which is less than --ttl") != told {
			t.Errorf("--ttl %s: %d %q", ttl, code, stderr)
		}
	}
	beside := filepath.Join(dir, "beside.kubeconfig")
	config, err := clientcmd.LoadFromFile(p.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, cluster := range config.Clusters {
		if err := os.WriteFile(filepath.Join(dir, "named-ca.pem"), cluster.CertificateAuthorityData, 0o600); err != nil {
			t.Fatal(err)
		}
		cluster.CertificateAuthority, cluster.CertificateAuthorityData = "named-ca.pem", nil
	}
	if err := clientcmd.WriteToFile(*config, beside); err != nil {
		t.Fatal(err)
	}
	if who := whoami(t, p.as(t, must(t, "token", "create", "--kubeconfig", beside, "--user", "jane"))); who != "jane" {
		t.Errorf("by a kubeconfig that names a file beside it: is %s", who)
	}
	if after := must(t, "kubeconfig", "--data-dir", dir); after != before {
		t.Error("the administrator's kubeconfig has changed")
	}
	p.end()
	elsewhere := must(t, "kubeconfig", "--data-dir", dir, "--user", "jane", "--server", "https://api.example.com:6443")
	if !strings.Contains(elsewhere, "server: https://api.example.com:6443\n") {
		t.Errorf("printed %s", elsewhere)
	}
	checkAdminElsewhere(t, before, must(t, "kubeconfig", "--data-dir", dir, "--server", "https://api.example.com:6443", "--namespace", "shop"))
}

// A token of a ServiceAccount that ends earlier than was asked for comes with the server's warning, as of kubectl.
func TestTokensThatEndEarly(t *testing.T) {
	p := start(t, "--data-dir", t.TempDir(), "--service-account-max-token-expiration", "1h")
	if _, err := p.client(t).CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "ci"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ args, warning string }{
		{"token create --ttl 2h", "Warning: requested expiration of 7200 seconds shortened to 3600 seconds\n"},
		{"kubeconfig --ttl 2h", "Warning: requested expiration of 7200 seconds shortened to 3600 seconds\n"},
		{"token create --ttl 1h", ""},
	} {
		code, _, stderr := command(t, append(strings.Fields(tc.args), "--kubeconfig", p.kubeconfig, "--user", "system:serviceaccount:default:ci")...)
		if code != 0 || stderr != tc.warning {
			t.Errorf("%s: ended with %d, %q", tc.args, code, stderr)
		}
	}
}

// checkAdminElsewhere checks that the administrator's kubeconfig for another machine differs only in the given values.
func checkAdminElsewhere(t *testing.T, before, after string) {
	t.Helper()
	var configs [2]*clientcmdapi.Config
	for i, text := range []string{before, after} {
		config, err := clientcmd.Load([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		configs[i] = config
	}
	current := configs[0].Contexts[configs[0].CurrentContext]
	current.Namespace, configs[0].Clusters[current.Cluster].Server = "shop", "https://api.example.com:6443"
	if !reflect.DeepEqual(configs[0], configs[1]) {
		t.Errorf("printed %s", after)
	}
}

// No command makes a user an administrator by accident, or a member of the groups of ServiceAccounts, and only a running server issues tokens of
// ServiceAccounts.
func TestCredentialsThatAreRefused(t *testing.T) {
	dir := t.TempDir()
	start(t, "--data-dir", dir).end()
	for _, tc := range []struct {
		args, want string
		code       int
	}{
		{"", "--user is required", exitUsage},
		{"--user root --group system:masters", "--allow-system-masters", exitUsage},
		{"--user root --group system:serviceaccounts:kube-system", "is a group of ServiceAccounts", exitUsage},
		{"--user root --group system:serviceaccounts", "is a group of ServiceAccounts", exitUsage},
		{"--user root --group system:unauthenticated", "are those who have none", exitUsage},
		{"--user root --group=", "a group needs a name", exitUsage},
		{"--user system:serviceaccount:default", "system:serviceaccount:<namespace>:<name>", exitUsage},
		{"--user system:serviceaccount:default:default --group team", "--group cannot be given", exitUsage},
		{"--user system:anonymous", "is who has none", exitUsage},
		{"--user jane --ttl 0s", "--ttl must be at least a second", exitUsage},
		{"--user jane --ttl 876000h", "", exitFailure},
		{"--user system:serviceaccount:default:default", "signed by a server that runs: no server answers", exitFailure},
	} {
		for _, name := range []string{"token create", "kubeconfig"} {
			code, stdout, stderr := command(t, strings.Fields(name+" --data-dir "+dir+" "+tc.args)...)
			if tc.args == "" && name == "kubeconfig" {
				continue
			}
			if code != tc.code || stdout != "" || !strings.Contains(stderr, tc.want) {
				t.Errorf("%s %s: ended with %d, %q, %q", name, tc.args, code, stdout, stderr)
			}
		}
	}
	if code, _, stderr := command(t, "kubeconfig", "--data-dir", dir, "--group", "x"); code != exitUsage || !strings.Contains(stderr, "--group needs --user") {
		t.Errorf("%d %s", code, stderr)
	}
	if code, _, stderr := command(t, "token", "create", "--data-dir", t.TempDir(), "--user", "x"); code != exitFailure || !strings.Contains(stderr, "no admin.kubeconfig") {
		t.Errorf("%d %s", code, stderr)
	}
}

// If KUBECONFIG is exported, as serve suggests, it determines the server; a data directory that is given takes precedence.
func TestExportedKubeconfig(t *testing.T) {
	p := start(t, "--data-dir", t.TempDir())
	t.Setenv("KUBECONFIG", p.kubeconfig)
	for _, named := range []bool{false, true} {
		o, flags := &adminOptions{}, pflag.NewFlagSet("", pflag.ContinueOnError)
		o.addFlags(flags)
		o.dataDir = t.TempDir() // the default, without a server
		if named {
			if err := flags.Set("data-dir", o.dataDir); err != nil {
				t.Fatal(err)
			}
		}
		client, err := o.client()
		if named {
			if err == nil || !strings.Contains(err.Error(), "no admin.kubeconfig in "+o.dataDir) {
				t.Errorf("with a directory that is named: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := client.do(t.Context(), "GET", "/rowlock/tokens", nil, nil); err != nil {
			t.Error(err)
		}
	}
}
