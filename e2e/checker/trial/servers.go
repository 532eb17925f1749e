package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"k8s.io/client-go/rest"

	"github.com/rowlock/rowlock/e2e/checker/disk"
	"github.com/rowlock/rowlock/e2e/checker/record"
	"github.com/rowlock/rowlock/e2e/harness"
	"github.com/rowlock/rowlock/sqlstore/pgtest"
)

// servers are the servers of one database, each of which may be killed and started again at the same address.
type servers struct {
	cluster *pgtest.Cluster // nil: SQLite
	proxy   *pgtest.Proxy   // between the servers and the cluster
	disk    *disk.Disk      // for SQLite's files; nil: they are on the machine's disk, without faults
	unmount func() error
	clocks  []*jumping      // of the servers; none: they use the machine's
	tokens  string          // a file, with clocks
	known   []record.Target // the servers as clients see them
	calls   int             // how often a server was killed at a system call
	options []harness.RowlockOptions
	running []*harness.Server // used only by the injector of faults
}

// start starts the database and the servers. All are reached through a proxy.
func start(ctx context.Context, o *Options, dir string) (_ *servers, err error) {
	s := &servers{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	if o.Database == Postgres {
		if s.cluster, err = pgtest.New(); err != nil {
			return nil, err
		}
		if s.proxy, err = pgtest.NewProxy(s.cluster); err != nil {
			return nil, err
		}
	}
	if slices.ContainsFunc(o.Faults, NeedsDisk) {
		if err := s.mount(o, filepath.Join(dir, "disk")); err != nil {
			return nil, err
		}
	}
	if slices.ContainsFunc(o.Faults, NeedsClock) {
		if err := s.writeTokens(dir); err != nil {
			return nil, err
		}
	}
	for i := range o.Servers {
		port, err := harness.FreePort()
		if err != nil {
			return nil, err
		}
		options := harness.RowlockOptions{DataDir: filepath.Join(dir, fmt.Sprint("server-", i)), Port: port,
			Args: serverArgs(o)}
		if s.proxy != nil {
			options.Datastore, options.Schema = s.proxy.URL(), "histories"
		} else if s.disk != nil {
			options.Datastore = "sqlite://" + filepath.Join(dir, "disk", databaseFile)
		}
		if s.tokens != "" {
			s.giveClock(&options)
		}
		s.options = append(s.options, options)
		server, err := harness.StartRowlock(ctx, options)
		if err != nil {
			return nil, err
		}
		s.running = append(s.running, server)
	}
	return s, nil
}

// serverArgs are arguments of servers. The publisher of root certificates would write a ConfigMap of its own into every namespace. Unless a trial is
// about pruning, history is kept for as long as a round can last, so that no expiry of it is legitimate.
func serverArgs(o *Options) []string {
	args := []string{"--controllers=*,-root-ca-certificate-publisher-controller", "--history-age=" + cmp.Or(o.HistoryAge, time.Hour).String()}
	if o.HistorySize != "" {
		args = append(args, "--history-size="+o.HistorySize)
	}
	return append(args, o.Args...)
}

// stop ends everything. Errors of processes that were killed or hang are ignored.
func (s *servers) stop() (err error) {
	for _, server := range s.running {
		if server != nil {
			server.Kill()
		}
	}
	if s.proxy != nil {
		err = s.proxy.Close()
	}
	if s.cluster != nil {
		err = errors.Join(err, s.cluster.Stop())
	}
	if s.unmount != nil {
		err = errors.Join(err, s.unmount())
	}
	return err
}

// restart kills a server and starts it again.
func (s *servers) restart(ctx context.Context, i int, between func()) error {
	s.running[i].Kill()
	between()
	server, err := harness.StartRowlock(ctx, s.options[i])
	if err != nil {
		return err
	}
	s.running[i] = server
	return nil
}

// targets are the servers as clients see them. Servers of one database have one authority, so the credentials of the first work with all.
func (s *servers) targets() ([]record.Target, error) {
	if s.known != nil {
		return s.known, nil
	}
	config, err := s.credentials()
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	// Streams are served over HTTP/1.1, with a connection for each.
	streams := rest.CopyConfig(config)
	streams.NextProtos = []string{"http/1.1"}
	watches, err := rest.HTTPClientFor(streams)
	if err != nil {
		return nil, err
	}
	unlimited(watches)
	// A client that does not read blocks the server's writes once a few kilobytes are in flight.
	small := &net.Dialer{Control: func(_, _ string, c syscall.RawConn) (err error) {
		if cerr := c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10) }); cerr != nil {
			return cerr
		}
		return err
	}}
	streams = rest.CopyConfig(streams)
	streams.Dial = small.DialContext
	reluctant, err := rest.HTTPClientFor(streams)
	if err != nil {
		return nil, err
	}
	unlimited(reluctant)
	s.known = make([]record.Target, len(s.running))
	for i, server := range s.running {
		s.known[i] = record.Target{URL: server.URL, Client: client, Watches: watches, Reluctant: reluctant}
	}
	return s.known, nil
}

// unlimited removes the limit on the whole answer, which a stream would exceed.
func unlimited(client *http.Client) { client.Timeout = 0 }

// said returns the last log lines of the servers as an error.
func (s *servers) said() error {
	var errs []error
	for i, server := range s.running {
		text := server.Output()
		errs = append(errs, fmt.Errorf("server %d said: %s", i, text[max(0, len(text)-4000):]))
	}
	return errors.Join(errs...)
}
