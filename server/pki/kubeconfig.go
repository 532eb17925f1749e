package pki

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
)

// KubeconfigName is the name of the administrator's kubeconfig in a data directory.
const KubeconfigName = "admin.kubeconfig"

// KubeconfigEntry is the name of the cluster, the user and the context in the kubeconfig.
const KubeconfigEntry = "rowlock"

// WriteKubeconfig makes admin.kubeconfig of the data directory point at a server, given as https://host:port, with a
// client certificate of an administrator, and maintains it from then on. Other content of the file is kept: kubectl
// writes to it when a user chooses another namespace. Only its owner can read it.
func (p *PKI) WriteKubeconfig(serverURL string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serverURL = serverURL
	return p.refresh(p.opts.Now()) // this renews everything: the clock may have jumped since Open
}

// KubeconfigPath is the path of the file that WriteKubeconfig writes.
func (p *PKI) KubeconfigPath() string { return filepath.Join(p.opts.DataDir, KubeconfigName) }

func (p *PKI) refreshKubeconfig(now time.Time) error {
	path := p.KubeconfigPath()
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	config, err := clientcmd.Load(old)
	if err != nil {
		config = clientcmdapi.NewConfig() // no client could use the file
	}
	admin := adminOf(config)
	ca := p.ca.Load()
	if !admin.usable(ca, now) {
		if admin, err = issueAdmin(ca, now); err != nil {
			return fmt.Errorf("administrator's certificate: %w", err)
		}
		p.opts.Logger.Info("issued administrator's certificate", "notAfter", admin.cert.NotAfter)
	}
	if err := p.fill(config, ca, admin); err != nil {
		return err
	}
	data, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if bytes.Equal(data, old) {
		return os.Chmod(path, 0o600)
	}
	return writeFile(path, data, 0o600)
}

// adminOf returns the client certificate of an existing kubeconfig, nil if there is none.
func adminOf(config *clientcmdapi.Config) *keyPair {
	info, ok := config.AuthInfos[KubeconfigEntry]
	if !ok {
		return nil
	}
	certs, err := cert.ParseCertsPEM(info.ClientCertificateData)
	if err != nil {
		return nil
	}
	key, err := parseKey(info.ClientKeyData)
	if err != nil {
		return nil
	}
	return &keyPair{cert: certs[0], key: key}
}

// fill puts the server, the credentials and a context with both into config.
func (p *PKI) fill(config *clientcmdapi.Config, ca, admin *keyPair) error {
	key, err := admin.keyPEM()
	if err != nil {
		return err
	}
	cluster := clientcmdapi.NewCluster()
	cluster.Server = p.serverURL
	cluster.CertificateAuthorityData = ca.certPEM()
	if p.userCert != nil {
		cluster.TLSServerName = loopbackName
	}
	config.Clusters[KubeconfigEntry] = cluster

	info := clientcmdapi.NewAuthInfo()
	info.ClientCertificateData = admin.certPEM()
	info.ClientKeyData = key
	config.AuthInfos[KubeconfigEntry] = info

	context := config.Contexts[KubeconfigEntry]
	if context == nil {
		context = clientcmdapi.NewContext()
		config.Contexts[KubeconfigEntry] = context
	}
	context.Cluster, context.AuthInfo = KubeconfigEntry, KubeconfigEntry
	if config.CurrentContext == "" {
		config.CurrentContext = KubeconfigEntry
	}
	return nil
}
