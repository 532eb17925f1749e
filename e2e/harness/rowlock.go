package harness

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"
)

// RowlockOptions are the options of StartRowlock.
type RowlockOptions struct {
	// Tokens makes Pods get the tokens of their ServiceAccounts, as by default.
	Tokens bool
	// DataDir is --data-dir; a server started again on the same directory has the same data.
	DataDir string
	// Datastore is --datastore; empty is the server's default, SQLite in DataDir.
	Datastore string
	// Schema is --schema; empty is the server's default.
	Schema string
	// Port is where it listens on 127.0.0.1; 0 takes a free one.
	Port int
	// Args are further arguments of `rowlock serve`.
	Args []string
	// Begin starts the command; nil: (*exec.Cmd).Start.
	Begin func(*exec.Cmd) error
}

// StartRowlock starts the built binary and waits until it is ready.
func StartRowlock(ctx context.Context, options RowlockOptions) (*Server, error) {
	if options.Port == 0 {
		port, err := FreePort()
		if err != nil {
			return nil, err
		}
		options.Port = port
	}
	address := fmt.Sprintf("127.0.0.1:%d", options.Port)
	began := time.Now()
	p, err := startBy(options.Begin, options.DataDir, "rowlock", Binary("rowlock"), options.args(address)...)
	if err != nil {
		return nil, err
	}
	s := &Server{
		Name:       "Rowlock",
		URL:        "https://" + address,
		Kubeconfig: filepath.Join(options.DataDir, "admin.kubeconfig"),
		DataDir:    options.DataDir,
		processes:  []*process{p},
	}
	if err := p.awaitReady(ctx, s.URL); err != nil {
		s.Kill()
		return nil, err
	}
	s.StartToReady = time.Since(began)
	return s, nil
}

// RowlockCommand returns the command that StartRowlock would run, for tests in which the server is expected to refuse.
func RowlockCommand(ctx context.Context, options RowlockOptions) *exec.Cmd {
	return exec.CommandContext(ctx, Binary("rowlock"), options.args(fmt.Sprintf("127.0.0.1:%d", options.Port))...)
}

func (o RowlockOptions) args(address string) []string {
	args := []string{"serve", "--data-dir", o.DataDir, "--listen", address}
	if !o.Tokens {
		// As with kube-apiserver: most tests are about clients' requests, and not about the tokens that are put into Pods.
		args = append(args, "--disable-admission-plugins", "ServiceAccount")
	}
	if o.Datastore != "" {
		args = append(args, "--datastore", o.Datastore)
	}
	if o.Schema != "" {
		args = append(args, "--schema", o.Schema)
	}
	return append(args, o.Args...)
}
