package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

// serveFlags returns the flags of rowlock serve, with the options that they set.
func serveFlags(t *testing.T) (*serveOptions, *pflag.FlagSet) {
	t.Helper()
	o, flags := &serveOptions{}, pflag.NewFlagSet("serve", pflag.ContinueOnError)
	for _, s := range o.sections() {
		flags.AddFlagSet(s.flags)
	}
	return o, flags
}

func writeConfig(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// The file sets flags that are set neither on the command line nor in the environment, for values of every form.
func TestConfigFile(t *testing.T) {
	o, flags := serveFlags(t)
	file := writeConfig(t, "listen: 0.0.0.0:7443\ndata-dir: /from/file\nlog-level: debug\nallow-privileged: false\ntls-san: [a.example.com, 10.0.0.1]\n"+
		"feature-gates: {CBORServingAndStorage: true, WatchList: false}\nmax-object-bytes: 1000000\nclient-ca-file:\ncontrollers: []\n")
	if err := flags.Parse([]string{"--config", file, "--log-level", "info"}); err != nil {
		t.Fatal(err)
	}
	environment := map[string]string{"ROWLOCK_DATA_DIR": "/from/environment"}
	if err := setFromEnvironment(flags, func(name string) (string, bool) { v, ok := environment[name]; return v, ok }); err != nil {
		t.Fatal(err)
	}
	if err := setFromFile(flags); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, name := range []string{"listen", "data-dir", "log-level", "allow-privileged", "tls-san", "feature-gates", "max-object-bytes", "client-ca-file", "controllers"} {
		got[name] = flags.Lookup(name).Value.String()
	}
	want := map[string]string{"listen": "0.0.0.0:7443", "data-dir": "/from/environment", "log-level": "info", "allow-privileged": "false",
		"tls-san": "[a.example.com,10.0.0.1]", "feature-gates": "CBORServingAndStorage=true,WatchList=false", "max-object-bytes": "1000000",
		"client-ca-file": "", "controllers": "[]"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(o.tlsSANs) != 2 {
		t.Errorf("names: %q", o.tlsSANs)
	}
}

// All values of a list take effect, for every kind of flag.
func TestConfigFileLists(t *testing.T) {
	_, flags := serveFlags(t)
	file := writeConfig(t, "feature-gates: [WatchList=false, CBORServingAndStorage=true]\nruntime-config: {api/alpha: true, api/beta: false}\noidc-required-claim: [a=b, c=d]\n"+
		"service-account-issuer: [https://a, https://b]\nservice-account-key-file: [/a, \"/b,c\"]\ntls-sni-cert-key: [\"a,b\", \"c,d:e\"]\nallow-metric-labels: {\"m,l\": a, \"n,l\": b}\ncontrollers: [\"*\", -namespace-controller]\n")
	if err := flags.Parse([]string{"--config", file}); err != nil {
		t.Fatal(err)
	}
	if err := setFromFile(flags); err != nil {
		t.Fatal(err)
	}
	for name, wants := range map[string][]string{"feature-gates": {"WatchList=false", "CBORServingAndStorage=true"}, "runtime-config": {"api/alpha=true", "api/beta=false"},
		"oidc-required-claim": {"a=b", "c=d"}, "service-account-issuer": {"https://a", "https://b"}, "service-account-key-file": {"/a", "\"/b,c\""}, "tls-sni-cert-key": {"a,b", "c,d:e"},
		"allow-metric-labels": {"m,l=a", "n,l=b"}, "controllers": {"*", "-namespace-controller"}} {
		got := flags.Lookup(name).Value.String()
		for _, want := range wants {
			if !strings.Contains(got, want) {
				t.Errorf("--%s is %s, without %s", name, got, want)
			}
		}
	}
}

// Errors in the file are usage errors, like those in the command line, and are named.
func TestConfigFileRefusals(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"unknown flag":    {"lissten: 127.0.0.1:0", "there is no flag --lissten"},
		"itself":          {"config: other.yaml", "there is no flag --config"},
		"help":            {"help: true", "there is no flag --help"},
		"no map":          {"- listen", "it is no map from flags to values"},
		"twice":           {"listen: a\nlisten: b", "already set"},
		"documents":       {"---\nlisten: 127.0.0.1:0\n---\ntls-san: a\n", "it has several documents"},
		"second alone":    {"---\n# of mine\n---\nlisten: 127.0.0.1:0\n", "it has several documents"},
		"same line":       {"listen: 127.0.0.1:0\n--- {tls-san: a}\n", "it has several documents"},
		"after its end":   {"listen: 127.0.0.1:0\n...\ntls-san: a\n", "it has several documents"},
		"JSON twice":      {"{\"listen\":\"127.0.0.1:0\"}\n{\"tls-san\":\"a\"}\n", "it has several documents"},
		"carriage":        {"listen: 127.0.0.1:0\r---\rtls-san: a\r", "it has several documents"},
		"several":         {"service-cluster-ip-range: [10.50.0.0/16, \"fd00:1::/112\"]", "--service-cluster-ip-range takes one value, not 2"},
		"no value":        {"allow-privileged: perhaps", `invalid argument "perhaps"`},
		"secret":          {"datastore: {url: {x: SECRET}}", "datastore: a flag has no such value: a map"},
		"nested":          {"listen: [{host: a}]", "listen: a flag has no such value"},
		"no such setting": {"feature-gates: {NoSuchGate: {a: b}}", "feature-gates: a flag has no such value"},
	} {
		t.Run(name, func(t *testing.T) {
			file := writeConfig(t, tc.text)
			code, _, stderr := command(t, "serve", "--config", file, "--data-dir", t.TempDir())
			if code != exitUsage || !strings.Contains(stderr, file) || !strings.Contains(stderr, tc.want) || strings.Contains(stderr, "SECRET") {
				t.Errorf("%d %s", code, stderr)
			}
		})
	}
	if code, _, stderr := command(t, "serve", "--config", "/nonexistent"); code != exitUsage || !strings.Contains(stderr, "no such file") {
		t.Errorf("%d %s", code, stderr)
	}
}

// The markers of a document's beginning and end do not start another document.
func TestConfigFileOfOneDocument(t *testing.T) {
	for _, text := range []string{"listen: a", "# of mine\n---\nlisten: a\n---\n# no more\n", "--- # of mine\nlisten: a\n...\n", "---\nlisten: |-\n  a\n",
		"%YAML 1.1\n---\nlisten: a\n", "\ufeff---\nlisten: a\n", "listen: a\r\n---\r\n"} {
		if got, err := parseConfig([]byte(text)); err != nil || !cmp.Equal(got, map[string][]string{"listen": {"a"}}) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

// The file in the packages has every flag with its default, which changes nothing when it is uncommented.
func TestPackagedConfig(t *testing.T) {
	_, flags := serveFlags(t)
	want := packagedConfig(flags)
	if *write {
		if err := os.WriteFile(packagedConfigFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(packagedConfigFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("stale; make generate (-want +got):\n%s", diff)
	}
	defaults := map[string]string{}
	flags.VisitAll(func(f *pflag.Flag) { defaults[f.Name] = f.Value.String() })
	uncommented := strings.ReplaceAll(string(text), "\n#", "\n")
	uncommented = strings.ReplaceAll(uncommented, "\n ", "\n# ")
	if err := flags.Set(configFlag, writeConfig(t, uncommented)); err != nil {
		t.Fatal(err)
	}
	if err := setFromFile(flags); err != nil {
		t.Fatalf("%v\n%s", err, uncommented)
	}
	delete(defaults, configFlag)
	for name, value := range defaults {
		if got := flags.Lookup(name).Value.String(); got != value && name != dataDirFlag {
			t.Errorf("%s: %q, and not %q", name, got, value)
		}
		if name != dataDirFlag && !strings.Contains(string(text), "\n#"+name+":") {
			t.Errorf("--%s is missing", name)
		}
	}
	if err := yaml.UnmarshalStrict(text, &map[string]any{}); err != nil {
		t.Error(err)
	}
}
