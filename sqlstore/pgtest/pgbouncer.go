package pgtest

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Pooler is a PgBouncer in transaction mode.
type Pooler struct {
	dir  string
	cmd  *exec.Cmd
	gone chan struct{}
}

// poolerConfig is formatted with the cluster's directory and, four times, the pooler's.
const poolerConfig = `[databases]
* = host=%[1]s
[pgbouncer]
listen_addr =
unix_socket_dir = %[2]s
auth_type = trust
auth_file = %[2]s/users
pool_mode = transaction
default_pool_size = 4
logfile = %[2]s/log
pidfile = %[2]s/pid
`

// Pooler starts a PgBouncer in front of the cluster; if there is none, it is installed like Postgres. It gives a
// connection to another client after every transaction, and by default PgBouncer tracks no settings of a session.
func (c *Cluster) Pooler() (_ *Pooler, err error) {
	program, err := pgbouncer()
	if err != nil {
		return nil, err
	}
	p := &Pooler{gone: make(chan struct{})}
	if p.dir, err = os.MkdirTemp("/tmp", "rowlock-pb"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(p.dir))
		}
	}()
	config := filepath.Join(p.dir, "config")
	if err := os.WriteFile(config, fmt.Appendf(nil, poolerConfig, c.dir, p.dir), 0o644); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(p.dir, "users"), []byte(`"postgres" ""`+"\n"), 0o644); err != nil {
		return nil, err
	}
	if c.cred != nil {
		if err := os.Chown(p.dir, int(c.cred.Uid), int(c.cred.Gid)); err != nil {
			return nil, err
		}
	}
	p.cmd = c.program(program, "--quiet", config)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in its log
		close(p.gone)
	}()
	return p, p.awaitReady(c)
}

func pgbouncer() (string, error) {
	look := func() string {
		for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
			if path, err := exec.LookPath(name); err == nil {
				return path
			}
		}
		return ""
	}
	return Find(look, "pgbouncer", "no PgBouncer is installed (looked for it in PATH and /usr/sbin)")
}

func (p *Pooler) awaitReady(c *Cluster) error {
	for range 300 {
		if c.run("pg_isready", "--quiet", "--host", p.dir, "--port", "6432", "--username", "postgres") == nil {
			return nil
		}
		select {
		case <-p.gone:
			text, _ := os.ReadFile(filepath.Join(p.dir, "log"))
			return fmt.Errorf("pgbouncer ended: %s", text)
		case <-time.After(100 * time.Millisecond): // there is no signal to wait for
		}
	}
	return errors.New("pgbouncer did not become ready")
}

// URL is the datastore of the cluster, through the pooler.
func (p *Pooler) URL() string {
	return "postgres:///postgres?user=postgres&port=6432&host=" + url.QueryEscape(p.dir)
}

// Stop ends the pooler and deletes its directory.
func (p *Pooler) Stop() error {
	err := p.cmd.Process.Signal(syscall.SIGINT)
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	<-p.gone
	return errors.Join(err, os.RemoveAll(p.dir))
}
