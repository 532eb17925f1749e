package pki

import (
	"os"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func load(t *testing.T, p *PKI) *clientcmdapi.Config {
	t.Helper()
	config, err := clientcmd.LoadFromFile(p.KubeconfigPath())
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func TestKubeconfigFollowsServer(t *testing.T) {
	p := mustOpen(t, testOptions(t.TempDir(), newClock()))
	if err := p.WriteKubeconfig("https://127.0.0.1:1111"); err != nil {
		t.Fatal(err)
	}
	first := load(t, p)
	if err := p.WriteKubeconfig("https://127.0.0.1:2222"); err != nil {
		t.Fatal(err)
	}
	second := load(t, p)
	if got := second.Clusters[KubeconfigEntry].Server; got != "https://127.0.0.1:2222" {
		t.Errorf("server is %s", got)
	}
	if string(first.AuthInfos[KubeconfigEntry].ClientKeyData) != string(second.AuthInfos[KubeconfigEntry].ClientKeyData) {
		t.Error("a new address took a new client certificate")
	}
	if got := second.Clusters[KubeconfigEntry].TLSServerName; got != "" {
		t.Errorf("tls-server-name is %q though the server has only its own certificate", got)
	}
}

func TestKubeconfigKeepsWhatKubectlWrote(t *testing.T) {
	p := mustOpen(t, testOptions(t.TempDir(), newClock()))
	if err := p.WriteKubeconfig("https://127.0.0.1:1111"); err != nil {
		t.Fatal(err)
	}
	config := load(t, p)
	config.Contexts[KubeconfigEntry].Namespace = "mine"
	config.Contexts["other"] = &clientcmdapi.Context{Cluster: "other", AuthInfo: "other"}
	config.CurrentContext = "other"
	if err := clientcmd.WriteToFile(*config, p.KubeconfigPath()); err != nil {
		t.Fatal(err)
	}
	if err := p.WriteKubeconfig("https://127.0.0.1:2222"); err != nil {
		t.Fatal(err)
	}
	got := load(t, p)
	if got.Contexts[KubeconfigEntry].Namespace != "mine" || got.Contexts["other"] == nil || got.CurrentContext != "other" {
		t.Errorf("changes were lost: %+v", got)
	}
}

func TestKubeconfigReplacesGarbage(t *testing.T) {
	p := mustOpen(t, testOptions(t.TempDir(), newClock()))
	if err := os.WriteFile(p.KubeconfigPath(), []byte("{not: [yaml"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := p.WriteKubeconfig("https://127.0.0.1:1111"); err != nil {
		t.Fatal(err)
	}
	if load(t, p).CurrentContext != KubeconfigEntry {
		t.Error("not usable")
	}
	if info, err := os.Stat(p.KubeconfigPath()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestKubeconfigOfLostAuthority(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	p := mustOpen(t, testOptions(dir, c))
	if err := p.WriteKubeconfig("https://127.0.0.1:1111"); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir + "/pki"); err != nil {
		t.Fatal(err)
	}
	p = mustOpen(t, testOptions(dir, c))
	if err := p.WriteKubeconfig("https://127.0.0.1:1111"); err != nil {
		t.Fatal(err)
	}
	if admin := adminOf(load(t, p)); !admin.usable(p.ca.Load(), c.Now()) {
		t.Error("the client certificate is still that of the lost authority")
	}
}
