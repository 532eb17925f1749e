// Package server starts the built Rowlock in place of the kube-apiserver that upstream's integration tests start within their own process.
//
// Upstream's tests call three functions to get a server. The packages kubeapiserver, framework and fixtures have files that replace the files of these
// functions while the tests are compiled (go's -overlay). Each has the exported names that the tests use, and starts its server here.
package server

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// BinaryVariable is the environment variable with the path of the Rowlock binary, DatastoreVariable that with the URL of a Postgres to store in; without it,
// servers store in SQLite.
const (
	BinaryVariable    = "ROWLOCK_INTEGRATION_BINARY"
	DatastoreVariable = "ROWLOCK_INTEGRATION_DATASTORE"
)

// TB is the part of testing.TB that this package uses.
type TB interface {
	Helper()
	Logf(format string, args ...any)
	Failed() bool
	Cleanup(func())
}

// Server is a running server.
type Server struct {
	// URL is where it serves.
	URL string
	// Token is a bearer token of a user who may do anything, as kube-apiserver's own client within its process may.
	Token string

	command *exec.Cmd
	log     string
	ended   chan struct{} // closed when the process has ended and err is set
	err     error
	stop    sync.Once
}

// Options are the options of Start.
type Options struct {
	// Dir is the directory of the certificates (--cert-dir) and of the token file.
	Dir string
	// Prefix is the prefix of the keys in etcd that kube-apiserver would use. Servers with the same prefix have the same data, one after the other.
	Prefix string
	// Args are the arguments of `rowlock kube-apiserver`, without those that say where it listens and what it stores.
	Args []string
	// SkipHealth makes Start return before the server answers.
	SkipHealth bool
}

// Start starts a server and waits until it is healthy and has its first namespaces. The test's cleanup stops it, if nothing else has.
func Start(t TB, options Options) (*Server, error) {
	t.Helper()
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	token := fmt.Sprintf("loopback-%016x", rand.Uint64())
	args, err := withToken(options.Args, options.Dir, token)
	if err != nil {
		return nil, err
	}
	if err := writeServing(options.Dir); err != nil {
		return nil, err
	}
	args = append(append([]string{"kube-apiserver", "--etcd-servers", "http://127.0.0.1:1", "--bind-address", "127.0.0.1", "--secure-port", fmt.Sprint(port),
		"--cert-dir", options.Dir}, store(options)...), args...)
	s := &Server{URL: fmt.Sprintf("https://127.0.0.1:%d", port), Token: token, log: filepath.Join(os.TempDir(), filepath.Base(options.Dir)+".log"), ended: make(chan struct{})}
	if err := s.start(args); err != nil {
		return nil, err
	}
	t.Logf("%s %s", os.Getenv(BinaryVariable), strings.Join(args, " "))
	t.Cleanup(func() {
		s.Stop()
		if t.Failed() {
			t.Logf("the end of the server's log:\n%s", s.output())
		}
	})
	if options.SkipHealth {
		return s, nil
	}
	if err := s.awaitHealth(); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// store returns the arguments for the store: a directory with a SQLite file for each prefix, or a schema of Postgres.
func store(options Options) []string {
	name := "store_" + strings.NewReplacer("/", "_", "-", "_").Replace(strings.Trim(options.Prefix, "/"))
	if url := os.Getenv(DatastoreVariable); url != "" {
		return []string{"--data-dir", filepath.Join(options.Dir, "data"), "--datastore", url, "--schema", name}
	}
	return []string{"--data-dir", filepath.Join(os.TempDir(), name)}
}

// start starts the process.
func (s *Server) start(args []string) error {
	binary := os.Getenv(BinaryVariable)
	if binary == "" {
		return errors.New(BinaryVariable + " is not set: start these tests with `make integration`")
	}
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	s.command = exec.Command(binary, args...)
	s.command.Stdout, s.command.Stderr = log, log
	if err := s.command.Start(); err != nil {
		return err
	}
	go func() {
		s.err = s.command.Wait()
		close(s.ended)
	}()
	return nil
}

// Stop asks the process to end, and kills it if it does not.
func (s *Server) Stop() {
	s.stop.Do(func() {
		_ = s.command.Process.Signal(syscall.SIGTERM)
		select {
		case <-s.ended:
		case <-time.After(30 * time.Second):
			_ = s.command.Process.Kill()
			<-s.ended
		}
	})
}

// ClientConfig returns the configuration of a client that may do anything and has no limits of its own.
func (s *Server) ClientConfig() *rest.Config {
	return &rest.Config{Host: s.URL, BearerToken: s.Token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: serving().cert, ServerName: loopbackName}}
}

// awaitHealth waits until /healthz answers ok and the namespaces are there that each server has.
func (s *Server) awaitHealth() error {
	client, err := kubernetes.NewForConfig(s.ClientConfig())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		err := client.Discovery().RESTClient().Get().AbsPath("/healthz").Do(ctx).Error()
		for _, namespace := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem} {
			if err == nil {
				_, err = client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
			}
		}
		if err == nil {
			return nil
		}
		select {
		case <-s.ended:
			return fmt.Errorf("the server ended (%w):\n%s", errors.Join(s.err, err), s.output())
		case <-ctx.Done():
			return fmt.Errorf("the server is not healthy (%w):\n%s", err, s.output())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// output returns the end of the log.
func (s *Server) output() string {
	const most = 8 << 10
	text, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

// freePort returns a port without a listener. It is below those that Linux gives to connections, which could otherwise take it.
func freePort() (int, error) {
	for range 1000 {
		port := 20000 + rand.IntN(12000)
		if listener, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port)); err == nil {
			return port, listener.Close()
		}
	}
	return 0, errors.New("no free port")
}

// Value returns the last value of a flag among arguments, as --name=value or as two arguments.
func Value(args []string, name string) (value string, found bool) {
	for i, arg := range args {
		switch is, ok := strings.CutPrefix(arg, "--"+name+"="); {
		case ok:
			value, found = is, true
		case arg == "--"+name && i+1 < len(args):
			value, found = args[i+1], true
		}
	}
	return value, found
}

// Without returns arguments without some flags.
func Without(args []string, names ...string) []string {
	var rest []string
	for i := 0; i < len(args); i++ {
		drop, next := false, false
		for _, name := range names {
			drop = drop || args[i] == "--"+name || strings.HasPrefix(args[i], "--"+name+"=")
			next = next || args[i] == "--"+name
		}
		switch {
		case !drop:
			rest = append(rest, args[i])
		case next:
			i++
		}
	}
	return rest
}

// withToken adds a user who may do anything to the token file of the arguments, or a token file.
func withToken(args []string, dir, token string) ([]string, error) {
	const flag = "token-auth-file"
	line := token + ",system:apiserver,loopback,system:masters\n"
	if own, ok := Value(args, flag); ok {
		text, err := os.ReadFile(own)
		if err != nil {
			return nil, err
		}
		line += string(text)
	}
	name := filepath.Join(dir, "tokens.csv")
	return append(Without(args, flag), "--"+flag+"="+name), os.WriteFile(name, []byte(line), 0o600)
}
