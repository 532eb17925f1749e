package harness

import (
	"errors"
	"path/filepath"
	"syscall"
)

// ControllerManager is a kube-controller-manager that works on a server.
type ControllerManager struct{ process *process }

// StartControllerManager starts kube-controller-manager, as upstream builds it, on a Rowlock that StartRowlock started. It is the only one, so it
// holds no election, and serves nothing itself; it signs by Rowlock's authority. It has no check of readiness here: its work shows in the API.
func StartControllerManager(s *Server) (*ControllerManager, error) {
	authority := filepath.Join(s.DataDir, "pki", "ca")
	p, err := start(s.DataDir, "kube-controller-manager", Binary("kube-controller-manager"),
		"--kubeconfig", s.Kubeconfig, "--root-ca-file", authority+".crt",
		"--cluster-signing-cert-file", authority+".crt", "--cluster-signing-key-file", authority+".key",
		"--leader-elect=false", "--secure-port", "0", "--use-service-account-credentials")
	if err != nil {
		return nil, err
	}
	return &ControllerManager{process: p}, nil
}

// Stop ends it. It returns an error if the process had ended before.
func (m *ControllerManager) Stop() error {
	select {
	case <-m.process.done:
		return errors.Join(errors.New("kube-controller-manager ended by itself"), m.process.err)
	default:
		_ = m.process.stop(syscall.SIGTERM) // a signal ends it without an exit code
		return nil
	}
}

// Output returns its log.
func (m *ControllerManager) Output() string { return m.process.output() }
