package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// timelines refuses connections to a primary that was replaced and does not know it. If a URL names several hosts, the
// first one that takes writes is used; an old primary that comes back takes writes until somebody makes it a standby. A
// name that follows the primary may lead to it for a while, too. The old primary lacks all writes acknowledged since,
// and writes that it acknowledges will soon be lost. Each promotion begins a timeline with a higher number, so a server
// that has seen a timeline of a cluster uses none before it, not even when nothing else can be reached. A cluster that
// was restored to an earlier state has a new timeline, too, unless its files were copied without point-in-time
// recovery; then the server has to be restarted.
type timelines struct {
	mu     sync.Mutex
	newest map[string]uint64 // the newest timeline seen, by the identifier of the cluster
}

const (
	timelineSQL = `SELECT system_identifier, left(pg_walfile_name(pg_current_wal_lsn()), 8) FROM pg_control_system()`
	// connectedTo is the key under which a connection keeps its branch.
	connectedTo = "connected to"
)

// branch is the cluster and timeline that a connection leads to.
type branch struct {
	system   string
	timeline uint64
}

// validate refuses connections to a server that takes no writes, or to a primary that was replaced.
func (t *timelines) validate(ctx context.Context, c *pgconn.PgConn) error {
	if err := pgconn.ValidateConnectTargetSessionAttrsReadWrite(ctx, c); err != nil {
		return err
	}
	results, err := c.Exec(ctx, timelineSQL).ReadAll()
	if err != nil {
		return err
	}
	if len(results) != 1 || len(results[0].Rows) != 1 {
		return errors.New("the database does not say which timeline it is on")
	}
	row := results[0].Rows[0]
	b, err := parseBranch(string(row[0]), string(row[1]))
	if err != nil {
		return err
	}
	c.CustomData()[connectedTo] = b
	return t.check(b)
}

// follow refuses an origin, in the form of actualSQL, that is a primary that was replaced.
func (t *timelines) follow(origin string) error {
	system, rest, _ := strings.Cut(origin, "/")
	timeline, _, _ := strings.Cut(rest, "/")
	b, err := parseBranch(system, timeline)
	if err != nil {
		return err
	}
	return t.check(b)
}

// followHere is follow for the database of a transaction.
func (t *timelines) followHere(ctx context.Context, c sqlConn) error {
	var origin string
	err := c.QueryRowContext(ctx, "SELECT "+actualSQL+" FROM meta m").Scan(&origin)
	if err == nil {
		err = t.follow(origin)
	}
	if err != nil {
		return unavailable(err)
	}
	return nil
}

func parseBranch(system, timeline string) (branch, error) {
	number, err := strconv.ParseUint(timeline, 16, 32)
	return branch{system, number}, err
}

func (t *timelines) check(b branch) error {
	if newest := t.note(b); newest > b.timeline {
		return fmt.Errorf("the database here is on timeline %d, and was replaced when another one took over on timeline %d: it is not used. "+
			"If it was put back on purpose, start the server anew", b.timeline, newest)
	}
	return nil
}

// note records a timeline and returns the newest one seen of its cluster.
func (t *timelines) note(p branch) (newest uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.newest == nil {
		t.newest = map[string]uint64{}
	}
	newest = max(t.newest[p.system], p.timeline)
	t.newest[p.system] = newest
	return newest
}

// current reports whether a pooled connection leads to a primary that was not replaced since.
func (t *timelines) current(_ context.Context, conn *pgx.Conn) (bool, error) {
	p, ok := conn.PgConn().CustomData()[connectedTo].(branch)
	t.mu.Lock()
	defer t.mu.Unlock()
	return !ok || p.timeline >= t.newest[p.system], nil
}

// survey connects to each of several hosts, so that a server that has seen no timeline yet does not take the first one
// for the newest. Hosts that cannot be reached within the time for a connection are ignored.
func survey(ctx context.Context, config *pgx.ConnConfig) {
	hosts := eachHost(config)
	if len(hosts) < 2 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, config.ConnectTimeout)
	defer cancel()
	var asked sync.WaitGroup
	for _, host := range hosts {
		asked.Go(func() {
			if conn, err := pgx.ConnectConfig(ctx, host); err == nil {
				_ = conn.Close(ctx) // validate has recorded its timeline
			}
		})
	}
	asked.Wait()
}

// commandConfig is postgresConfig for a connection outside of a Store, which uses no primary that was replaced either.
// It reads the credentials anew, because a server makes backups for as long as it runs. The timelines that it finds on
// several hosts stay in the options: 'rowlock migrate' connects again while writes wait.
func commandConfig(ctx context.Context, o *Options) (*pgx.ConnConfig, error) {
	config, err := postgresConfig(o)
	if err != nil {
		return nil, err
	}
	c := config.ConnConfig
	c.DefaultQueryExecMode = pgx.QueryExecModeExec // for a pooler
	first := o.timelines == nil
	if first {
		o.timelines = &timelines{}
	}
	c.ValidateConnect = o.timelines.validate
	if o.RereadURL != nil {
		from := *o
		(&credentials{options: &from, schema: o.Schema}).renew(ctx, c)
	}
	if first {
		survey(ctx, c)
	}
	return c, nil
}

// eachHost returns a configuration for each host alone.
func eachHost(config *pgx.ConnConfig) (hosts []*pgx.ConnConfig) {
	ways := append([]*pgconn.FallbackConfig{{Host: config.Host, Port: config.Port, TLSConfig: config.TLSConfig}}, config.Fallbacks...)
	at := map[string]*pgx.ConnConfig{}
	for _, way := range ways {
		name := fmt.Sprint(way.Host, " ", way.Port)
		if host := at[name]; host != nil { // with and without TLS
			host.Fallbacks = append(host.Fallbacks, way)
			continue
		}
		host := config.Copy()
		host.Host, host.Port, host.TLSConfig, host.Fallbacks = way.Host, way.Port, way.TLSConfig, nil
		at[name], hosts = host, append(hosts, host)
	}
	return hosts
}
