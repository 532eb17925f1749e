package harness

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Backend is a store that kube-apiserver can run on.
type Backend struct {
	name, binary string
	database     string // the URL of a Postgres for kine
}

// The backends that need nothing but their own binary.
var (
	Etcd       = Backend{name: "etcd", binary: "etcd"}
	KineSQLite = Backend{name: "kine/SQLite", binary: "kine"}
)

// KinePostgres is kine on a running Postgres.
func KinePostgres(url string) Backend {
	return Backend{name: "kine/Postgres", binary: "kine", database: url}
}

// PeerToken authenticates the administrator of a peer; it listens on loopback and lives as long as a test.
const PeerToken = "admintoken"

// Binaries are the names that Build needs to make for this peer.
func (b Backend) Binaries() []string { return []string{"kube-apiserver", b.binary} }

// StartKubeAPIServer starts kube-apiserver on the given store, both with fresh data under dir, or with the content of its directory store, and waits
// until it is ready. No controller creates service accounts, so the admission plugin that needs them is off. Its limits of requests in flight are
// raised to admit 1,000 clients, since it would otherwise answer most of them with 429. Further arguments are added to its own.
func StartKubeAPIServer(ctx context.Context, backend Backend, dir string, args ...string) (*Server, error) {
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	s := &Server{
		Name:       "kube-apiserver + " + backend.name,
		URL:        fmt.Sprintf("https://127.0.0.1:%d", ports[0]),
		Kubeconfig: filepath.Join(dir, "kubeconfig"),
		DataDir:    filepath.Join(dir, "store"),
	}
	if err := s.writePeerFiles(dir); err != nil {
		return nil, err
	}
	began := time.Now()
	s.Store = fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	store, err := startBackend(backend, dir, s.DataDir, ports[1], ports[2])
	if err != nil {
		return nil, err
	}
	s.processes = append(s.processes, store)
	if err := store.awaitListening(ctx, fmt.Sprintf("127.0.0.1:%d", ports[1])); err != nil {
		s.Kill()
		return nil, err
	}
	api, err := start(dir, "kube-apiserver", Binary("kube-apiserver"), append([]string{
		"--etcd-servers", s.Store,
		"--bind-address", "127.0.0.1", "--secure-port", fmt.Sprint(ports[0]), "--cert-dir", filepath.Join(dir, "certs"),
		"--token-auth-file", filepath.Join(dir, "tokens.csv"), "--authorization-mode", "Node,RBAC",
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", filepath.Join(dir, "sa.key"),
		"--service-account-signing-key-file", filepath.Join(dir, "sa.key"), "--service-cluster-ip-range", "10.43.0.0/16",
		"--endpoint-reconciler-type", "none", "--disable-admission-plugins", "ServiceAccount",
		"--max-requests-inflight", "3000", "--max-mutating-requests-inflight", "1000"}, args...)...)
	if err != nil {
		s.Kill()
		return nil, err
	}
	s.processes = append(s.processes, api)
	if err := api.awaitReady(ctx, s.URL); err != nil {
		s.Kill()
		return nil, err
	}
	s.StartToReady = time.Since(began)
	return s, nil
}

// startBackend starts the store.
func startBackend(backend Backend, dir, data string, port, peerPort int) (*process, error) {
	client := fmt.Sprintf("http://127.0.0.1:%d", port)
	if backend == Etcd {
		return start(dir, "etcd", Binary("etcd"), "--data-dir", data, "--log-level", "error",
			"--listen-client-urls", client, "--advertise-client-urls", client,
			"--listen-peer-urls", fmt.Sprintf("http://127.0.0.1:%d", peerPort))
	}
	database := backend.database
	if database == "" {
		database = "sqlite://" + filepath.Join(data, "state.db") + "?_journal=WAL&cache=shared&_busy_timeout=30000&_txlock=immediate"
	}
	return start(dir, "kine", Binary("kine"), "--metrics-bind-address", "0",
		"--listen-address", fmt.Sprintf("127.0.0.1:%d", port), "--endpoint", database)
}

// writePeerFiles writes kube-apiserver's files besides its store: a key, a token, and the kubeconfig that uses it.
func (s *Server) writePeerFiles(dir string) error {
	if err := os.MkdirAll(s.DataDir, 0o700); err != nil {
		return err
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return fmt.Errorf("service account key: %w", err)
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	if err := os.WriteFile(filepath.Join(dir, "sa.key"), pem.EncodeToMemory(block), 0o600); err != nil {
		return err
	}
	tokens := PeerToken + `,admin,admin,"system:masters"` + "\n"
	if err := os.WriteFile(filepath.Join(dir, "tokens.csv"), []byte(tokens), 0o600); err != nil {
		return err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["peer"] = &clientcmdapi.Cluster{Server: s.URL, InsecureSkipTLSVerify: true}
	config.AuthInfos["admin"] = &clientcmdapi.AuthInfo{Token: PeerToken}
	config.Contexts["peer"] = &clientcmdapi.Context{Cluster: "peer", AuthInfo: "admin"}
	config.CurrentContext = "peer"
	return clientcmd.WriteToFile(*config, s.Kubeconfig)
}
