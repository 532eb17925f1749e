package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/pflag"

	"github.com/rowlock/rowlock/resources/upstream"
	"github.com/rowlock/rowlock/server/pki"
)

// command runs rowlock to its end.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// Each refusal names the error, ends with the code of a usage error, and leaves no files.
func TestRefusals(t *testing.T) {
	for _, tc := range []struct{ name, args, want string }{
		{"unknown command", "server", `unknown command "server"`},
		{"unknown flag", "serve --colour", "unknown flag: --colour"},
		{"unknown flag of another command", "version --data-dir x", "unknown flag: --data-dir"},
		{"unknown shell", "completion tcsh", `no completion is known for "tcsh"`},
		{"argument after a shell", "completion bash now", `unexpected argument "now"`},
		{"argument", "serve now", `unexpected argument "now"`},
		{"flag without value", "serve --listen", "flag needs an argument: --listen"},
		{"listen without port", "serve --listen localhost", `--listen "localhost" is not of the form host:port`},
		{"listen with a name for a port", "serve --listen localhost:https", "--listen"},
		{"listen with too large a port", "serve --listen localhost:65536", "--listen"},
		{"listen with too many colons", "serve --listen ::1:6443", "--listen"},
		{"certificate without key", "serve --tls-cert-file a", "--tls-cert-file needs --tls-private-key-file"},
		{"key without certificate", "serve --tls-private-key-file a", "--tls-private-key-file needs --tls-cert-file"},
		{"front proxy: certificate without key", "serve --proxy-client-cert-file a", "--proxy-client-cert-file needs --proxy-client-key-file"},
		{"front proxy: key without certificate", "serve --proxy-client-key-file a", "--proxy-client-key-file needs --proxy-client-cert-file"},
		{"front proxy: no header", "serve --requestheader-username-headers=a, ", `empty value in "requestheader-username-headers"`},
		{"front proxy: certificate that nobody believes", "serve --proxy-client-cert-file a --proxy-client-key-file b", "needs --requestheader-client-ca-file"},
		{"kubelets: certificate without key", "serve --kubelet-client-certificate a", "need each other"},
		{"names for a given certificate", "serve --tls-cert-file a --tls-private-key-file b --tls-san c", "--tls-san"},
		{"malformed name", "serve --tls-san https://example.com", `--tls-san "https://example.com"`},
		{"range without a length", "serve --service-cluster-ip-range 10.43.0.0", "--service-cluster-ip-range takes"},
		{"range of one address", "serve --service-cluster-ip-range 10.43.0.0/31", "too small"},
		{"range beyond reason", "serve --service-cluster-ip-range fd00::/48", "too large"},
		{"two ranges of one family", "serve --service-cluster-ip-range 10.43.0.0/16,10.44.0.0/16", "one of IPv4 and one of IPv6"},
		{"malformed range of ports", "serve --service-node-port-range many", "--service-node-port-range"},
		{"ports beyond the last", "serve --service-node-port-range 65000-70000", "--service-node-port-range"},
		{"no ports", "serve --service-node-port-range 0-0", "--service-node-port-range must be"},
		{"unreachable address", "serve --advertise-address 127.0.0.1", "--advertise-address must be"},
		{"unknown database", "serve --datastore mysql://root:geheim@db", "--datastore: the database must be"},
		{"database without scheme", "serve --datastore /var/lib/x.db", "--datastore: the database must be"},
		{"malformed password", "serve --datastore postgres://root:ge/heim@db/x", "--datastore: the URL cannot be parsed"},
		{"socket as libpq's", "serve --datastore postgres://root@%2Frun%2Fpostgresql/x", "?host=/directory"},
		{"malformed parameter", "serve --datastore postgres://root:geheim@db/x?sslmode=y", "--datastore: the URL of the database: "},
		{"two databases", "serve --datastore postgres://root:geheim@db/x --datastore-file y", "--datastore-file"},
		{"schema in SQLite", "serve --schema x", "--schema needs a Postgres"},
		{"schema that Postgres would cut", "serve --datastore postgres://db/x --schema " + strings.Repeat("x", 64), "--schema: "},
		{"schema that Postgres would change", "serve --datastore postgres://db/x --schema $user", "--schema: "},
		{"history of no age", "serve --history-age 0s", "--history-age must be positive"},
		{"events of less than no lifetime", "serve --event-ttl -1s", "--event-ttl must not be negative"},
		{"malformed age", "serve --history-age soon", "--history-age"},
		{"history of no size", "serve --history-size 0", "--history-size must be positive"},
		{"malformed size", "serve --history-size large", "--history-size"},
		{"objects of less than nothing", "serve --max-object-bytes -1", "--max-object-bytes must not be negative"},
		{"interval of backups that nobody makes", "serve --backup-every 1h", "--backup-every needs --backup-dir"},
		{"number of backups that nobody makes", "serve --backup-keep 2", "--backup-keep needs --backup-dir"},
		{"passphrase of backups that nobody makes", "serve --backup-passphrase-file a", "--backup-passphrase-file needs --backup-dir"},
		{"backups all the time", "serve --backup-dir a --backup-every 1ms", "--backup-every must be at least"},
		{"backups among the keys", "serve --data-dir a --backup-dir a/pki/backups", "/a/pki, of which all files are in each backup"},
		{"unknown durability", "serve --sqlite-synchronous off", "must be one of full, normal"},
		{"no issuer", "serve --service-account-issuer=", "--service-account-issuer must not be empty"},
		{"one issuer twice", "serve --service-account-issuer a --service-account-issuer a", `--service-account-issuer "a" is given twice`},
		{"issuer that is no URL", "serve --service-account-issuer https://[", "has a colon and is not a URL"},
		{"keys over plain HTTP", "serve --service-account-jwks-uri http://issuer/keys", "is not a URL that begins with https://"},
		{"tokens for a minute", "serve --service-account-max-token-expiration 1m", "--service-account-max-token-expiration must be between 1 hour and 2^32 seconds"},
		{"unknown feature gate", "serve --feature-gates Colour=true", "--feature-gates: unrecognized feature gate: Colour"},
		{"feature gate that is neither on nor off", "serve --feature-gates CBORServingAndStorage=maybe", "--feature-gates"},
		{"unknown group", "serve --runtime-config colours/v1=true", "--runtime-config: unknown api groups colours/v1"},
		{"unknown fast path", "serve --fast-paths -merge-patch,-tomorrow", `--fast-paths: there is no fast path "tomorrow"; there are json-decode, `},
		{"snapshot of etcd for the standard output", "export -", "not to the standard output: name a file"},
		{"namespace of a variable that is empty", "restore --namespace= backup", "--namespace and --object need a name"},
		{"object of a variable that is empty", "restore --namespace=shop --object= backup", "--namespace and --object need a name"},
		{"one namespace of two", "restore --namespace shop, backup", "--namespace and --object need a name"},
		{"database of what goes through a server", "restore --namespace shop --datastore postgres://root:geheim@db/x backup", "--datastore excludes --namespace, --object and --revision"},
		{"file of that", "restore --object cm/shop/a --datastore-file url backup", "--datastore-file excludes"},
		{"schema of that", "restore deployment/web --revision 7 --schema x", "--schema "},
		{"unknown log level", "serve --log-level loud", "must be one of warn, error, info, debug"},
		{"unknown log format", "serve --log-format xml", "must be one of text, json"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			t.Setenv("ROWLOCK_DATA_DIR", dir)
			code, stdout, stderr := command(t, strings.Fields(tc.args)...)
			if code != exitUsage || stdout != "" || !strings.Contains(stderr, tc.want) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want %q", code, stdout, stderr, tc.want)
			}
			if strings.Contains(stderr, "heim") {
				t.Errorf("a password is shown: %s", stderr)
			}
			if _, err := os.Stat(dir); err == nil {
				t.Error("the data directory was made")
			}
		})
	}
}

// An empty argument comes from an unset variable: without the check, a backup was made and then had no name.
func TestEmptyArgument(t *testing.T) {
	for _, name := range []string{"backup", "export", "restore", "history", "undelete"} {
		if code, _, stderr := command(t, name, "--data-dir", t.TempDir(), ""); code != exitUsage || !strings.Contains(stderr, "is needed") {
			t.Errorf("%s: exit code %d, stderr %q", name, code, stderr)
		}
	}
}

func TestEnvironment(t *testing.T) {
	var dir, listen string
	var names []string
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.StringVar(&dir, "data-dir", "default", "")
	flags.StringVar(&listen, "listen", "default", "")
	flags.StringSliceVar(&names, "tls-san", nil, "")
	if err := flags.Parse([]string{"--listen", "line"}); err != nil {
		t.Fatal(err)
	}
	environment := map[string]string{"ROWLOCK_DATA_DIR": "", "ROWLOCK_LISTEN": "env", "ROWLOCK_TLS_SAN": "a,b",
		"ROWLOCK_SERVICE_HOST": "10.0.0.1"}
	lookup := func(name string) (string, bool) { v, ok := environment[name]; return v, ok }
	if err := setFromEnvironment(flags, lookup); err != nil {
		t.Fatal(err)
	}
	if dir != "default" || listen != "line" || strings.Join(names, " ") != "a b" {
		t.Errorf("got %q, %q, %q", dir, listen, names)
	}
}

func TestEnvironmentOfCommand(t *testing.T) {
	t.Setenv("ROWLOCK_LISTEN", "nonsense")
	if code, _, stderr := command(t, "serve"); code != exitUsage || !strings.Contains(stderr, `--listen "nonsense"`) {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	t.Setenv("ROWLOCK_HISTORY_AGE", "soon")
	if code, _, stderr := command(t, "serve"); code != exitUsage || !strings.Contains(stderr, "ROWLOCK_HISTORY_AGE") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{}, {"--help"}, {"help"}, {"serve", "--help"}, {"kubeconfig", "-h"}, {"version", "--help"}} {
		code, stdout, stderr := command(t, args...)
		if code != 0 || stderr != "" || !strings.Contains(stdout, "Usage:") {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
	_, stdout, _ := command(t, "serve", "--help")
	for _, want := range []string{"--data-dir", "--listen", "--datastore", "--datastore-file", "--schema", "--tls-san", "--tls-cert-file",
		"--tls-private-key-file", "--client-ca-file", "--token-auth-file", "--history-age", "--history-size",
		"--sqlite-synchronous", "--log-level", "--log-format", "ROWLOCK_DATA_DIR"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("help of serve does not mention %s", want)
		}
	}
	for _, leak := range []string{"vmodule", "logtostderr", "stderrthreshold", "kubeconfig string"} {
		if strings.Contains(stdout, leak) {
			t.Errorf("help of serve shows a flag of a library: %s", leak)
		}
	}
}

func TestVersion(t *testing.T) {
	code, stdout, _ := command(t, "version")
	for _, want := range []string{"Rowlock " + ownVersion(), "Kubernetes " + upstream.Release, "Go " + runtime.Version()} {
		if code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("exit code %d, %q, want %q", code, stdout, want)
		}
	}
}

func TestKubeconfig(t *testing.T) {
	dir := t.TempDir()
	code, stdout, stderr := command(t, "kubeconfig", "--data-dir", dir)
	if code != exitFailure || stdout != "" || !strings.Contains(stderr, "rowlock serve") {
		t.Errorf("before first start: exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	if err := os.WriteFile(filepath.Join(dir, pki.KubeconfigName), []byte("content\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr = command(t, "kubeconfig", "--data-dir", dir); code != 0 || stdout != "content\n" || stderr != "" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// full is a writer on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// A command fails if its output cannot be written.
func TestOutputThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	start(t, "--data-dir", dir).end()
	t.Setenv("ROWLOCK_DATA_DIR", dir)
	for _, args := range []string{"", "help", "--help", "serve --help", "version", "completion", "completion bash", "kube-apiserver --version", "verify", "keys list",
		"sql --views", "kubeconfig", "export " + dir + "/snapshot", "migrate --dry-run --from sqlite://" + dir + "/rowlock.db --to sqlite://" + dir + "/other.db"} {
		var errs bytes.Buffer
		if code := run(t.Context(), strings.Fields(args), full{}, &errs); code != exitFailure || !strings.Contains(errs.String(), "no space left on device") {
			t.Errorf("%q: exit code %d, stderr %q", args, code, errs.String())
		}
	}
}
