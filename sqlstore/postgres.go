package sqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"k8s.io/utils/clock"

	"github.com/rowlock/rowlock/migrations"
)

const (
	// postgresReaders is how many reads run at once. Reads are rare and short: the counter, and history beyond the log
	// in memory. docs/postgres.md counts all connections of a server.
	postgresReaders = 4
	// connectTimeout is how long a connection to each host of the URL may take, unless the URL sets another time.
	connectTimeout = 5 * time.Second
)

// postgresDriver writes to a database that other servers write to as well.
type postgresDriver struct {
	logger  *slog.Logger
	clock   clock.Clock
	config  *pgx.ConnConfig // of the listener
	renew   func(context.Context, *pgx.ConnConfig)
	limits  limits
	sealer  *sealer
	schema  string        // of the tables
	prelude string        // the statement that every transaction has to begin with, if any
	writes  *pgxpool.Pool // of one connection, and a second one while the first is being given up
	pool    *pgxpool.Pool // of the connections that read
	readers *sql.DB       // the same
	pools   []*connPool   // both
	channel string        // of notifications
	locks   int32         // the class of advisory locks
	self    int32         // this server's number among those that listen; 0: it does not listen
	unseen  int           // how often in a row no server of schema version 1 was seen; only the committer uses it
	crowded bool          // the queue of notifications was full at the last attempt to notify; only the committer uses it
	pooled  bool          // a pooler is in between: notifications may not come

	timelines timelines
}

// openPostgres connects to a database and brings its schema up to date.
func openPostgres(ctx context.Context, o *Options) (*database, *postgresDriver, error) {
	config, err := postgresConfig(o)
	if err != nil {
		return nil, nil, err
	}
	p := &postgresDriver{logger: o.Logger, clock: o.Clock, limits: o.limits, sealer: o.sealer}
	config.ConnConfig.ValidateConnect, config.PrepareConn = p.timelines.validate, p.timelines.current
	d := &database{driver: p, origin: &origin{}, follow: p.timelines.followHere, counter: "SELECT " + counterSQL + " FROM meta m", state: selectStateSQL, unhurried: unhurriedSQL,
		isolation: sql.LevelRepeatableRead, deadConnections: postgresReaders, objects: postgresObjects, oldestSQL: selectOldestSQL}
	err = func() error {
		if err := o.await(ctx, func() error {
			survey(ctx, config.ConnConfig)
			return p.probe(ctx, config, o.Schema)
		}); err != nil {
			return err
		}
		p.config = config.ConnConfig
		d.prelude = p.prelude
		p.renew = (&credentials{options: o, schema: p.schema}).renew
		config.BeforeConnect = func(ctx context.Context, c *pgx.ConnConfig) error {
			p.renew(ctx, c)
			return cancelNothing(ctx, c)
		}
		if p.pool, err = p.openPool(ctx, config.Copy(), postgresReaders); err != nil {
			return err
		}
		if p.writes, err = p.openPool(ctx, config, 2); err != nil {
			return err
		}
		d.reads = stdlib.OpenDBFromPool(p.pool)
		p.readers = d.reads
		// First, because a store that has moved takes no migrations.
		if err := o.awaitMove(ctx, func() error { return o.await(ctx, func() error { return d.checkPlace(ctx) }) }); err != nil {
			return err
		}
		if err := o.await(ctx, func() error { return migrations.Postgres(ctx, d.reads, p.schema) }); err != nil {
			return err
		}
		return o.await(ctx, func() error {
			_, err := p.settle(position{})
			return err
		})
	}()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open the database: %w", err), d.close())
	}
	return d, p, nil
}

// openPool opens a pool of at most most connections, which close ends.
func (p *postgresDriver) openPool(ctx context.Context, config *pgxpool.Config, most int32) (*pgxpool.Pool, error) {
	config.MaxConns = most
	s, err := openPool(ctx, config, p.limits)
	if err != nil {
		return nil, err
	}
	p.pools = append(p.pools, s)
	return s.pool, nil
}

// postgresConfig parses the URL. Its errors do not contain the password.
func postgresConfig(o *Options) (*pgxpool.Config, error) {
	config, err := parsePostgres(o.URL)
	if err != nil {
		return nil, err
	}
	c := config.ConnConfig
	if c.ConnectTimeout == 0 || c.ConnectTimeout > time.Minute {
		c.ConnectTimeout = connectTimeout
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "rowlock"
	}
	// Overrides the setting of a role or a database: the store's texts are UTF-8 and would otherwise be misread.
	c.RuntimeParams["client_encoding"] = "UTF8"
	// Overrides the URL: a standby may answer with an old state, and takes no writes.
	c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	c.OnNotice = noteWarning
	c.DialFunc = briefly(c.DialFunc)
	config.AfterConnect = registerTypes
	return config, nil
}

// probe examines the database through a connection of its own: whether the schema exists, and whether there is a
// pooler.
func (p *postgresDriver) probe(ctx context.Context, config *pgxpool.Config, schema string) error {
	c := config.ConnConfig.Copy()
	c.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background()) //nolint:errcheck // the connection or transaction is no longer needed
	var v version
	if err := p.query(ctx, conn, "SELECT "+versionSQL).scan(&v.number, &v.name); err != nil {
		return err
	}
	if err := v.check(); err != nil {
		return err
	}
	if schema != "" {
		if err := makeSchema(ctx, conn, schema); err != nil {
			return err
		}
	}
	if p.prelude = ""; schema != "" {
		p.prelude = setSearchPath(schema)
	}
	found := surroundings{}
	const look = "SELECT pg_backend_pid(), current_schema(), (" + filledSchemaSQL + "), current_setting('fsync'), current_setting('server_encoding')"
	if err := p.query(ctx, conn, look).scan(&found.pid, &found.current, &found.filled, &found.fsync, &found.encoding); err != nil {
		return err
	}
	if err := found.check(schema, p.logger); err != nil {
		return err
	}
	p.schema = found.current.String
	if found.pid != conn.PgConn().PID() {
		// The process number that the connection knows is the pooler's.
		p.pooled = true
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // prepared statements would belong to a connection
		p.logger.Warn("a pooler stands between this server and the database: what other servers write is looked for every " +
			p.limits.deaf().String() + " and when it is needed, notifications are not relied upon. Connect to the database directly for less delay")
	}
	// All connections use the schema of this moment: the role's search path may change, or get a schema that comes
	// first, and that schema has another store, or none.
	//
	// Without jit = off, the planner expects hundreds of rows in a table of one row that was never analyzed, and compiles
	// the recorder's statement of a millisecond, which takes a hundred.
	p.prelude = setSearchPath(p.schema) + ", set_config('jit', 'off', true)"
	if !p.pooled {
		// A pooler may refuse these parameters at the start of a connection, and has no other way to set them for a
		// session; the database accepts them.
		config.ConnConfig.RuntimeParams["search_path"] = pgx.Identifier{p.schema}.Sanitize()
		config.ConnConfig.RuntimeParams["jit"] = "off"
		p.prelude = ""
	}
	sum := sha256.Sum256([]byte(p.schema))
	p.channel = fmt.Sprintf("rowlock_%x", sum)[:40]
	p.locks = int32(binary.BigEndian.Uint32(sum[:]) >> 1)
	return nil
}

// surroundings describes a database, as seen by a connection.
type surroundings struct {
	pid             uint32
	current, filled sql.NullString // the first schema of the search path, and the first that has a store
	fsync, encoding string
}

// version is the version of a Postgres, such as 150018 and "15.18".
type version struct {
	number int
	name   string
}

const (
	versionSQL    = "current_setting('server_version_num')::int, current_setting('server_version')"
	oldestVersion = 15
)

// check refuses versions on which a server would fail later, or on which none was tested.
func (v version) check() error {
	if v.number < oldestVersion*10000 {
		return fmt.Errorf("the database is Postgres %s, and it has to be %d or later", v.name, oldestVersion)
	}
	return nil
}

// check returns an error if no store can be opened in the schema, or in the first schema of the search path if schema
// is empty.
func (s *surroundings) check(schema string, logger *slog.Logger) error {
	universal := s.encoding == "UTF8" || s.encoding == "SQL_ASCII" // SQL_ASCII stores any bytes
	switch {
	case schema == "" && !s.current.Valid:
		return errNoSchema
	case schema != "" && s.current.String != schema:
		return fmt.Errorf("the role may not use the schema %q: it needs USAGE and CREATE on it", schema)
	case s.filled.Valid && s.filled != s.current:
		return fmt.Errorf("the search path has the schema %q first, which has no store, and one is in %q: name the schema that is meant (--schema)",
			s.current.String, s.filled.String)
	case !universal && !s.filled.Valid:
		return fmt.Errorf("the encoding of the database is %s, which does not have all characters: it has to be UTF8 "+
			"(CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0)", s.encoding)
	case !universal:
		logger.Warn("the encoding of the database does not have all characters, and objects with others are refused", "encoding", s.encoding)
	}
	if s.fsync == "off" {
		logger.Warn("fsync is off in the database: a crash of its machine can lose acknowledged writes or all of them")
	}
	return nil
}

// filledSchemaSQL returns the first schema of the search path with a store that the role may write.
const filledSchemaSQL = `SELECT s.name FROM unnest(current_schemas(false)) WITH ORDINALITY AS s (name, place)
WHERE 4 = (SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = s.name AND c.relkind = 'r'
  AND c.relname IN ('meta', 'objects', 'changes', 'schema_migrations') AND (c.relname <> 'meta' OR has_table_privilege(c.oid, 'UPDATE')))
ORDER BY s.place LIMIT 1`

// setSearchPath returns a statement that sets the search path to a schema until the transaction ends.
func setSearchPath(schema string) string {
	return "SELECT set_config('search_path', '" + strings.ReplaceAll(pgx.Identifier{schema}.Sanitize(), "'", "''") + "', true)"
}

// makeSchema checks first, because CREATE SCHEMA IF NOT EXISTS needs the privilege even if the schema exists.
func makeSchema(ctx context.Context, conn *pgx.Conn, schema string) error {
	var exists bool
	const find = "SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)"
	if err := conn.QueryRow(ctx, find, schema).Scan(&exists); err != nil || exists {
		return err
	}
	_, err := conn.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+pgx.Identifier{schema}.Sanitize())
	return err
}

func (p *postgresDriver) close() error {
	for _, pool := range p.pools {
		pool.close()
	}
	return nil
}

func (p *postgresDriver) size(ctx context.Context) (bytes int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.limits.read)
	defer cancel()
	const sum = `SELECT pg_total_relation_size('objects') + pg_total_relation_size('changes') + pg_total_relation_size('meta') +
pg_total_relation_size('revisions')`
	err = p.query(ctx, p.pool, sum).scan(&bytes)
	return bytes, err
}

// Postgres gives space back itself, by autovacuum.

func (p *postgresDriver) free(context.Context) (int64, error) { return 0, nil }
func (p *postgresDriver) vacuum(int64) (bool, error)          { return false, nil }
func (p *postgresDriver) checkpoint() error                   { return nil }
func (p *postgresDriver) trimLog() (bool, error)              { return false, nil }
func (p *postgresDriver) inPlace() error                      { return nil }
