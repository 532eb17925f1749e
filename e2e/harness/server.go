package harness

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// readyTimeout limits the time of a server from its start until /readyz answers 200.
const readyTimeout = 3 * time.Minute

// Server is a running server of the Kubernetes API: one process, or one and its store.
type Server struct {
	// Name is the name of the server, for people.
	Name string
	// URL is the base of all requests.
	URL string
	// Kubeconfig is the path of credentials that may do everything.
	Kubeconfig string
	// DataDir is the directory of its store's files.
	DataDir string
	// Store is the URL of the store of a kube-apiserver.
	Store string
	// StartToReady is the time from the start of the (first) process until /readyz answered 200.
	StartToReady time.Duration

	processes []*process // in the order they were started
}

// Config returns client-go's configuration for the server.
func (s *Server) Config() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig of %s: %w", s.Name, err)
	}
	config.QPS = -1 // no client-side rate limit
	return config, nil
}

// PIDs returns the ids of the server's processes.
func (s *Server) PIDs() []int {
	pids := make([]int, 0, len(s.processes))
	for _, p := range s.processes {
		pids = append(pids, p.cmd.Process.Pid)
	}
	return pids
}

// Stop sends SIGTERM to every process, the API server first, and waits until they have ended. It returns an error when the API server did not exit
// with 0; a store may end by the signal.
func (s *Server) Stop() error {
	var err error
	for i := len(s.processes) - 1; i >= 0; i-- {
		if stopErr := s.processes[i].stop(syscall.SIGTERM); i == len(s.processes)-1 {
			err = stopErr
		}
	}
	return err
}

// Kill ends every process at once with SIGKILL, as a power cut would, and waits until they are gone.
func (s *Server) Kill() {
	for _, p := range s.processes {
		_ = p.cmd.Process.Signal(syscall.SIGKILL)
	}
	for _, p := range s.processes {
		<-p.done
	}
}

// Signal sends a signal to the API server.
func (s *Server) Signal(signal os.Signal) error {
	return s.processes[len(s.processes)-1].cmd.Process.Signal(signal)
}

// Wait waits until the API server has ended and returns its error.
func (s *Server) Wait(ctx context.Context) error {
	p := s.processes[len(s.processes)-1]
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Ended returns a channel that is closed when one of the server's processes has ended, whether it was asked to or not.
func (s *Server) Ended() <-chan struct{} {
	ended := make(chan struct{})
	var once sync.Once
	for _, p := range s.processes {
		go func() { // until the process ends, at the latest when its owner stops the server
			<-p.done
			once.Do(func() { close(ended) })
		}()
	}
	return ended
}

// Output returns the API server's stdout and stderr, of this run and earlier ones on the same directory.
func (s *Server) Output() string {
	text, err := os.ReadFile(s.processes[len(s.processes)-1].log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Raced says whether the race detector has found something in the API server.
func (s *Server) Raced() bool { return strings.Contains(s.Output(), "WARNING: DATA RACE") }

// process is one child process whose output goes to a file.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when the process has ended and err is set
	err  error
}

// start runs a binary. Its stdout and stderr are appended to <dir>/<name>.log.
func start(dir, name, binary string, args ...string) (*process, error) {
	return startBy(nil, dir, name, binary, args...)
}

// startBy is start with another function than (*exec.Cmd).Start to start the command.
func startBy(begin func(*exec.Cmd) error, dir, name, binary string, args ...string) (*process, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	p := &process{log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", name, err)
	}
	defer log.Close()
	p.cmd = exec.Command(binary, args...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, log, log
	if begin == nil {
		begin = (*exec.Cmd).Start
	}
	if err := begin(p.cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// stop signals the process and waits for its end; one that does not end within two minutes is killed.
func (p *process) stop(signal os.Signal) error {
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s: %w", p.cmd.Path, err)
	}
	select {
	case <-p.done:
	case <-time.After(2 * time.Minute):
		_ = p.cmd.Process.Kill()
		<-p.done
		return fmt.Errorf("%s did not end within two minutes of %v\n%s", p.cmd.Path, signal, p.output())
	}
	if p.err != nil {
		return fmt.Errorf("%s: %w\n%s", p.cmd.Path, p.err, p.output())
	}
	return nil
}

// output returns the end of the process's log.
func (p *process) output() string {
	const most = 16 << 10
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

// awaitReady polls url/readyz until it answers 200, the process ends, or readyTimeout has passed.
func (p *process) awaitReady(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	// The certificate is unknown before the server has made it, and readiness is not a secret.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		last := ready(ctx, client, url+"/readyz")
		if last == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended before it was ready: %w\n%s", p.cmd.Path, errors.Join(p.err, last), p.output())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w (%w)\n%s", p.cmd.Path, ctx.Err(), last, p.output())
		case <-tick.C:
		}
	}
}

// awaitListening waits until the process accepts connections. kube-apiserver would wait for its store by itself, but in
// steps of a second.
func (p *process) awaitListening(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		connection, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			return connection.Close()
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended: %w\n%s", p.cmd.Path, errors.Join(p.err, err), p.output())
		case <-ctx.Done():
			return fmt.Errorf("%s does not listen: %w (%w)\n%s", p.cmd.Path, ctx.Err(), err, p.output())
		case <-tick.C:
		}
	}
}

func ready(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, bytes.TrimSpace(body))
	}
	return nil
}
