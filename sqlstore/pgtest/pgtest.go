// Package pgtest starts Postgres for tests: real processes on throw-away data, which a test may also break.
//
//	pgtest.go     Cluster: start, stop, kill, pause, replicas
//	proxy.go      a network between server and database that can be cut
//	pgbouncer.go  a pooler in transaction mode
//	limit.go      a bound of the size of files, like a full disk; attributes_*.go makes processes end with the test
package pgtest

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Cluster is a Postgres with data of its own, reached through a socket in its directory.
type Cluster struct {
	bin  string // directory of the programs
	dir  string
	cred *syscall.Credential // nil: the test's
	cmd  *exec.Cmd
	gone chan struct{} // closed when the postmaster has ended

	settings []string
}

// Options change a cluster's defaults.
type Options struct {
	// Settings of Postgres, such as "max_connections=10".
	Settings []string
	// WALSegment is the size of a file of the write-ahead log in MiB; 0 means Postgres' default.
	WALSegment int
}

// New makes a cluster and starts it; see Options.New.
func New() (*Cluster, error) { return Options{}.New() }

// New creates and starts a cluster. Stop ends it. It uses the programs in the directory POSTGRES_BIN, or else the newest
// Postgres that is found; if there is none, it installs Debian's package if this process may do that.
func (o Options) New() (_ *Cluster, err error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	c := &Cluster{bin: bin, settings: o.Settings}
	if c.dir, err = os.MkdirTemp("/tmp", "rowlock-pg"); err != nil { // short: a socket's path has at most 107 bytes
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(c.dir))
		}
	}()
	if err := c.becomeUser(); err != nil {
		return nil, err
	}
	args := []string{"--pgdata", c.data(), "--username", "postgres", "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync"}
	if o.WALSegment > 0 {
		args = append(args, "--wal-segsize", strconv.Itoa(o.WALSegment))
	}
	if err := c.run("initdb", args...); err != nil {
		return nil, err
	}
	return c, c.Start()
}

// programs returns the directory of initdb, after installing Postgres if needed.
func programs() (string, error) {
	if dir := os.Getenv("POSTGRES_BIN"); dir != "" {
		return dir, nil
	}
	return Find(installed, "postgresql", "no Postgres 15 or later is installed (looked for initdb in PATH and /usr/lib/postgresql)")
}

// Find returns a file of a Debian package, which it installs if needed; missing is what is wrong when that is not possible. Tests run concurrently:
// files that another one installs exist before they can be used, and apt-get fails while another one runs. So they take turns.
func Find(look func() string, name, missing string) (found string, err error) {
	if os.Geteuid() == 0 { // other users install nothing
		lock, err := os.OpenFile(filepath.Join(os.TempDir(), "rowlock-tests-apt-get.lock"), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return "", err
		}
		defer lock.Close() //nolint:errcheck // nothing is written to it
		for err = syscall.EINTR; errors.Is(err, syscall.EINTR); {
			err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
		}
		if err != nil {
			return "", err
		}
	}
	if found = look(); found != "" {
		return found, nil
	}
	if err := install(name); err != nil {
		return "", err
	}
	if found = look(); found != "" {
		return found, nil
	}
	return "", fmt.Errorf("%s: install the package %s", missing, name)
}

// install installs a Debian package, if that is possible.
func install(name string) error {
	apt, err := exec.LookPath("apt-get")
	if err != nil || os.Geteuid() != 0 {
		return nil //nolint:nilerr // the caller reports missing programs
	}
	// A fresh machine has no lists of packages yet.
	for _, args := range [][]string{{"update", "-qq"}, {"install", "-y", "-qq", "--no-install-recommends", name}} {
		cmd := exec.Command(apt, args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w: %s", args[0], err, out)
		}
	}
	return nil
}

func installed() string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // the pattern is right
	sort.Slice(found, func(i, j int) bool { return version(found[i]) < version(found[j]) })
	if n := len(found); n > 0 && version(found[n-1]) >= 15 {
		return filepath.Dir(found[n-1])
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(real)
		}
	}
	return ""
}

// version returns the 15 of a path /usr/lib/postgresql/15/bin/initdb.
func version(path string) int {
	n, _ := strconv.Atoi(strings.Split(path, "/")[4])
	return n
}

// becomeUser chooses the user for the processes: Postgres refuses to run as root.
func (c *Cluster) becomeUser() error {
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return err
		}
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return err
	}
	c.cred = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return os.Chown(c.dir, int(uid), int(gid))
}

func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }
func (c *Cluster) log() string  { return filepath.Join(c.dir, "log") }

func (c *Cluster) command(name string, args ...string) *exec.Cmd {
	return c.program(filepath.Join(c.bin, name), args...)
}

// program returns a command that runs as the cluster's user.
func (c *Cluster) program(path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.Dir = c.dir
	cmd.SysProcAttr = attributes(c.cred)
	return cmd
}

func (c *Cluster) run(name string, args ...string) error {
	if out, err := c.command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

// Start starts the postmaster and returns when it answers.
func (c *Cluster) Start() error {
	log, err := os.OpenFile(c.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the process has a descriptor of its own
	args := []string{"-D", c.data(), "-k", c.dir}
	for _, s := range append([]string{"listen_addresses=", "max_connections=300"}, c.settings...) {
		args = append(args, "-c", s)
	}
	c.cmd = c.command("postgres", args...)
	c.cmd.Stdout, c.cmd.Stderr = log, log
	if err := c.cmd.Start(); err != nil {
		return err
	}
	c.gone = make(chan struct{})
	go func(cmd *exec.Cmd, gone chan struct{}) {
		_ = cmd.Wait() // how it ended is in its log
		close(gone)
	}(c.cmd, c.gone)
	return c.awaitReady()
}

func (c *Cluster) awaitReady() error {
	for range 600 {
		if c.run("pg_isready", "--quiet", "--host", c.dir, "--username", "postgres") == nil {
			return nil
		}
		select {
		case <-c.gone:
			text, _ := os.ReadFile(c.log())
			return fmt.Errorf("postgres ended: %s", text)
		case <-time.After(100 * time.Millisecond): // there is no signal to wait for
		}
	}
	return errors.New("postgres did not become ready")
}

// URL is the datastore of the cluster.
func (c *Cluster) URL() string {
	return "postgres:///postgres?user=postgres&host=" + url.QueryEscape(c.dir)
}

// Signal sends a signal to the postmaster: SIGINT is a fast shutdown, SIGQUIT an immediate one without a checkpoint.
// Wait waits.
func (c *Cluster) Signal(s os.Signal) error { return c.cmd.Process.Signal(s) }

// Wait returns when the postmaster has ended.
func (c *Cluster) Wait() { <-c.gone }

// SignalAll sends a signal to every process of the cluster.
func (c *Cluster) SignalAll(s syscall.Signal) error {
	_, err := c.signalAll(s)
	return err
}

// signalAll returns the processes below the postmaster.
func (c *Cluster) signalAll(s syscall.Signal) (pids []int, err error) {
	pids, err = c.children()
	errs := []error{err, syscall.Kill(c.cmd.Process.Pid, s)}
	for _, pid := range pids {
		if err := syscall.Kill(pid, s); !errors.Is(err, syscall.ESRCH) { // it has ended meanwhile
			errs = append(errs, err)
		}
	}
	return pids, errors.Join(errs...)
}

// children returns the processes below the postmaster.
func (c *Cluster) children() (pids []int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", c.cmd.Process.Pid, c.cmd.Process.Pid))
	if err != nil {
		return nil, err
	}
	for _, field := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// Kill ends every process as a power failure would, and returns when they have ended.
func (c *Cluster) Kill() error {
	pids, err := c.signalAll(syscall.SIGKILL)
	c.Wait()
	for _, pid := range pids {
		for alive(pid) {
			time.Sleep(10 * time.Millisecond) // it is not a child of the test, so there is no signal to wait for
		}
	}
	return err
}

func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ") // a zombie has ended
}

// Replica creates a cluster that follows this one as a standby. Stop ends it.
func (c *Cluster) Replica() (_ *Cluster, err error) {
	r := &Cluster{bin: c.bin, cred: c.cred}
	if r.dir, err = os.MkdirTemp("/tmp", "rowlock-pg"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(r.dir))
		}
	}()
	if r.cred != nil {
		if err := os.Chown(r.dir, int(r.cred.Uid), int(r.cred.Gid)); err != nil {
			return nil, err
		}
	}
	if err := r.run("pg_basebackup", "--host", c.dir, "--username", "postgres", "--pgdata", r.data(), "--write-recovery-conf",
		"--checkpoint", "fast", "--no-sync"); err != nil {
		return nil, err
	}
	return r, r.Start()
}

// Promote makes a standby a primary, and returns when it is one.
func (c *Cluster) Promote() error { return c.run("pg_ctl", "promote", "--wait", "--pgdata", c.data()) }

// Log returns what the cluster has logged since it was created.
func (c *Cluster) Log() (string, error) {
	text, err := os.ReadFile(c.log())
	return string(text), err
}

// Run runs a program of Postgres against the cluster, like pg_dump.
func (c *Cluster) Run(name string, args ...string) error {
	return c.run(name, append([]string{"--host", c.dir, "--username", "postgres"}, args...)...)
}

// PID is the number of the postmaster's process, whose children are all others.
func (c *Cluster) PID() int { return c.cmd.Process.Pid }

// Dir is a directory in which the programs may write.
func (c *Cluster) Dir() string { return c.dir }

// FailoverURL is the datastore of several clusters, of which one is the primary.
func FailoverURL(clusters ...*Cluster) string {
	hosts := make([]string, len(clusters))
	for i, c := range clusters {
		hosts[i] = c.dir
	}
	return "postgres:///postgres?user=postgres&target_session_attrs=read-write&host=" + url.QueryEscape(strings.Join(hosts, ","))
}

// Stop ends the cluster and deletes it.
func (c *Cluster) Stop() error {
	err := c.Signal(syscall.SIGINT)
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	c.Wait()
	return errors.Join(err, os.RemoveAll(c.dir))
}
