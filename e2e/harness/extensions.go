package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Extension is a server that extends the API, as its project publishes it, on 127.0.0.1.
type Extension struct {
	// Port is where it answers requests, by TLS with a self-signed certificate.
	Port      int
	processes []*process
}

// StartSampleAPIServer starts Kubernetes' sample-apiserver over an etcd of its own, beside the server of a kubeconfig, to which it delegates
// authentication and authorization. dir is for its files. Its binaries are sample-apiserver and etcd.
func StartSampleAPIServer(ctx context.Context, kubeconfig, dir string) (*Extension, error) {
	e := &Extension{}
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "etcd")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, err
	}
	store, err := startBackend(Etcd, dir, data, ports[0], ports[1])
	if err != nil {
		return nil, err
	}
	e.processes = append(e.processes, store)
	if err := store.awaitListening(ctx, fmt.Sprintf("127.0.0.1:%d", ports[0])); err != nil {
		e.Stop()
		return nil, err
	}
	return e, e.start(ctx, kubeconfig, dir, "sample-apiserver", ports[2], "--etcd-servers", fmt.Sprintf("http://127.0.0.1:%d", ports[0]))
}

// StartMetricsServer starts metrics-server beside the server of a kubeconfig. It scrapes the kubelets of the nodes there at a port, with any
// certificates, every ten seconds, and is ready after two scrapes of each. dir is for its files.
func StartMetricsServer(ctx context.Context, kubeconfig, dir string, kubelets int) (*Extension, error) {
	e := &Extension{}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	return e, e.start(ctx, kubeconfig, dir, "metrics-server", port, "--kubelet-insecure-tls", "--kubelet-port", fmt.Sprint(kubelets),
		"--kubelet-preferred-address-types", "InternalIP", "--kubelet-request-timeout", "5s", "--metric-resolution", "10s")
}

func (e *Extension) start(ctx context.Context, kubeconfig, dir, name string, port int, args ...string) error {
	e.Port = port
	p, err := start(dir, name, Binary(name), append([]string{"--kubeconfig", kubeconfig, "--authentication-kubeconfig", kubeconfig,
		"--authorization-kubeconfig", kubeconfig, "--bind-address", "127.0.0.1", "--secure-port", fmt.Sprint(port),
		"--cert-dir", filepath.Join(dir, "certs")}, args...)...)
	if err == nil {
		e.processes = append(e.processes, p)
		err = p.awaitReady(ctx, fmt.Sprintf("https://127.0.0.1:%d", port))
	}
	if err != nil {
		e.Stop()
	}
	return err
}

// Output returns the end of the server's log.
func (e *Extension) Output() string { return e.processes[len(e.processes)-1].output() }

// Stop ends the server, and then its store.
func (e *Extension) Stop() {
	for len(e.processes) > 0 {
		last := len(e.processes) - 1
		_ = e.processes[last].stop(syscall.SIGTERM)
		e.processes = e.processes[:last]
	}
}
