package harness

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// ControllerManager is a kube-controller-manager that works on a server.
type ControllerManager struct{ process *process }

// StartControllerManager starts kube-controller-manager, as upstream builds it, on a Rowlock that StartRowlock started. It is the only one, so it
// holds no election, and serves nothing itself; it signs by Rowlock's authority and with its key of tokens. Its --root-ca-file has Rowlock's authority
// with a text before it, as a user's file may. It has no check of readiness here: its work shows in the API.
func StartControllerManager(s *Server) (*ControllerManager, error) {
	keys := filepath.Join(s.DataDir, "pki")
	authority := filepath.Join(keys, "ca")
	certificate, err := os.ReadFile(authority + ".crt")
	if err != nil {
		return nil, err
	}
	published := filepath.Join(s.DataDir, "root-ca.crt")
	if err := os.WriteFile(published, append([]byte("The authority of the cluster:\n"), certificate...), 0o600); err != nil {
		return nil, err
	}
	args := []string{"--kubeconfig", s.Kubeconfig, "--root-ca-file", published,
		"--cluster-signing-cert-file", authority + ".crt", "--cluster-signing-key-file", authority + ".key",
		"--leader-elect=false", "--secure-port", "0", "--use-service-account-credentials"}
	if signing := filepath.Join(keys, "sa.key"); exists(signing) { // servers on Postgres keep it there
		args = append(args, "--service-account-private-key-file", signing)
	}
	p, err := start(s.DataDir, "kube-controller-manager", Binary("kube-controller-manager"), args...)
	if err != nil {
		return nil, err
	}
	return &ControllerManager{process: p}, nil
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
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
