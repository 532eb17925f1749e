package main

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rowlock/rowlock/sqlstore/pgtest"
)

// robot creates a ServiceAccount, and returns a function for its tokens.
func robot(t *testing.T, c *kubernetes.Clientset) func() string {
	t.Helper()
	accounts := c.CoreV1().ServiceAccounts("default")
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return func() string {
		t.Helper()
		request, err := accounts.CreateToken(t.Context(), "robot", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return request.Status.Token
	}
}

// A removed token key stays removed: on running servers, and on those that start with a file that still has it.
func TestKeysOfSharedDatabase(t *testing.T) {
	cluster, err := pgtest.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop() })
	dirs := []string{t.TempDir(), t.TempDir()}
	// All rows are encrypted, including those of keys.
	encryption := filepath.Join(t.TempDir(), "encryption.yaml")
	if err := os.WriteFile(encryption, []byte("apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources: [{resources: ['*.*'], "+
		"providers: [{secretbox: {keys: [{name: k, secret: "+base64.StdEncoding.EncodeToString(make([]byte, 32))+"}]}}]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	serve := func(i int) *process {
		return start(t, "--data-dir", dirs[i], "--datastore", cluster.URL(), "--encryption-provider-config", encryption)
	}
	servers := []*process{serve(0), serve(1)}
	token := robot(t, servers[0].client(t))
	const name = "system:serviceaccount:default:robot"
	old := token()
	where := []string{"--data-dir", dirs[0], "--datastore", cluster.URL()}
	for _, args := range []string{"add", "list", "replace ca"} {
		if code, _, stderr := command(t, slices.Concat([]string{"keys"}, strings.Fields(args), where)...); code != exitFailure {
			t.Errorf("keys %s, without the keys of the database: %d %s", args, code, stderr)
		}
	}
	where = append(where, "--encryption-provider-config", encryption)
	// One in 64 IDs begins with a hyphen, so the IDs follow the flags and --.
	about := func(verb string, id ...string) []string {
		return slices.Concat([]string{"keys", verb}, where, []string{"--"}, id)
	}
	keys := func(verb string, id ...string) string { return must(t, about(verb, id...)...) }
	first := strings.Fields(keys("list"))[0]
	if _, published := servers[1].published(t); !strings.Contains(published, `"kid":"`+first+`"`) {
		t.Fatalf("%s is not published: %s", first, published)
	}
	second := keys("add")
	if listed := strings.Fields(keys("list")); len(listed) != 4 || listed[0] != first || listed[2] != second {
		t.Errorf("listed %s", listed)
	}
	// A server that starts now writes both keys into its file, the old one first.
	servers[1].end()
	servers[1] = serve(1)
	file, err := os.ReadFile(filepath.Join(dirs[1], "pki", "sa.key"))
	if err != nil || strings.Count(string(file), "BEGIN") != 2 {
		t.Fatalf("%v %s", err, file)
	}
	if code, _, stderr := command(t, about("remove", first)...); code != exitFailure || !strings.Contains(stderr, "signs") {
		t.Errorf("removed the key that signs: %d %s", code, stderr)
	}
	keys("sign", second)
	servers[0].settle(t)
	newer := token()
	for _, p := range servers {
		p.settle(t)
		if who := whoami(t, p.as(t, old)) + whoami(t, p.as(t, newer)); who != name+name {
			t.Errorf("with both keys, is %s", who)
		}
	}
	keys("remove", first)
	for i, p := range servers {
		p.end()
		servers[i] = serve(i)
		if who := whoami(t, servers[i].as(t, old)); who != "Unauthorized" {
			t.Errorf("server %d, with a token of a key that was taken away: is %s", i, who)
		}
		if who := whoami(t, servers[i].as(t, newer)); who != name {
			t.Errorf("server %d: is %s", i, who)
		}
	}
	if listed := strings.Fields(keys("list")); len(listed) != 2 || listed[0] != second {
		t.Errorf("after the starts: listed %s", listed)
	}
}

// settle waits until a server has seen all earlier writes.
func (p *process) settle(t *testing.T) {
	t.Helper()
	if _, err := p.client(t).CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
}

// A new authority replaces the old one on every server of a database when they restart, although their data directories have the old
// one. A certificate of the old authority is accepted only with --client-ca-file and the old authority's certificate.
func TestReplaceAuthority(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) {
		dir := t.TempDir()
		checkReplace(t, nil, []string{dir})
	})
	t.Run("Postgres", func(t *testing.T) {
		cluster, err := pgtest.New()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cluster.Stop() })
		checkReplace(t, []string{"--datastore", cluster.URL()}, []string{t.TempDir(), t.TempDir()})
	})
}

func checkReplace(t *testing.T, database, dirs []string) {
	t.Helper()
	serve := func(dir string, more ...string) *process {
		t.Helper()
		return start(t, append(append([]string{"--data-dir", dir}, database...), more...)...)
	}
	for _, dir := range dirs {
		serve(dir).end()
	}
	jane := must(t, "kubeconfig", "--data-dir", dirs[0], "--user", "jane")
	file := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dirs[0], "pki", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	old, oldProxy := file("ca.crt"), file("front-proxy-client.crt")
	for _, name := range []string{"ca", "front-proxy-ca"} {
		said := must(t, append([]string{"keys", "replace", name, "--data-dir", dirs[0]}, database...)...)
		if !strings.Contains(said, name+".previous.crt") {
			t.Errorf("said %s", said)
		}
	}
	// The other server starts first, with the old authority in its files.
	for i := len(dirs) - 1; i >= 0; i-- {
		p := serve(dirs[i])
		if who := whoami(t, p.client(t)); who != "kubernetes-admin" {
			t.Errorf("the new kubeconfig is of %s", who)
		}
		if who := whoami(t, withCertificateOf(t, jane, p)); who != "Unauthorized" {
			t.Errorf("a certificate of the old authority is of %s", who)
		}
		p.end()
		p = serve(dirs[i], "--client-ca-file", filepath.Join(dirs[0], "pki", "ca.previous.crt"))
		if who := whoami(t, withCertificateOf(t, jane, p)); who != "jane" {
			t.Errorf("with the old certificate as a further authority: %s", who)
		}
		p.end()
	}
	if file("ca.crt") == old || file("ca.previous.crt") != old || file("front-proxy-client.crt") == oldProxy {
		t.Error("the old authority is still in use")
	}
}

// withCertificateOf returns a client of a server with the credentials of a kubeconfig.
func withCertificateOf(t *testing.T, kubeconfig string, p *process) *kubernetes.Clientset {
	t.Helper()
	who, err := clientcmd.RESTConfigFromKubeConfig([]byte(kubeconfig))
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.CertData, config.KeyData = who.CertData, who.KeyData
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
