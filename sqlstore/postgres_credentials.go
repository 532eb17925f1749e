package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// credentials are the user, password and certificates for connections, as the URL, the files that it names and libpq's
// environment give them. Passwords change and certificates expire while a server runs; without a new read it would
// notice only when it loses a connection, which may be in a failover.
type credentials struct {
	options *Options
	schema  string // of all connections
	mu      sync.Mutex
	last    *pgx.ConnConfig // as last read
	said    string          // the last error that was logged
	verdict verdict
}

// verdict says whether another user may be taken.
type verdict struct {
	url string // which names the user
	err error
	at  time.Time
}

// verdictHolds is how long a verdict holds for the same URL. All connections that are being made wait for one that asks,
// so they must not ask again and again if it takes long.
const verdictHolds = 10 * time.Second

// renew sets the credentials of a connection that is about to be made. If they cannot be read, because a file is being
// written for example, the last ones are used.
func (k *credentials) renew(ctx context.Context, c *pgx.ConnConfig) {
	k.mu.Lock()
	defer k.mu.Unlock()
	found, err := k.read()
	switch {
	case err != nil:
	case !slices.Equal(places(c), places(found)):
		err = errors.New("it names another database, for which the server has to be started anew")
	case k.options.Schema == "" && c.User != found.User && (k.last == nil || k.last.User != found.User):
		if k.verdict.url != found.ConnString() || time.Since(k.verdict.at) > verdictHolds {
			err = k.findsTables(ctx, found)
			k.verdict = verdict{found.ConnString(), err, time.Now()}
		}
		err = k.verdict.err
	}
	if err == nil {
		k.last, k.said = found, ""
	} else if said := err.Error(); said != k.said {
		k.said = said
		k.options.Logger.Warn("the changed URL of the database cannot be used, the previous one stays in use", "error", err)
	}
	if k.last != nil {
		copied := k.last.Copy()
		c.User, c.Password, c.TLSConfig, c.Fallbacks = copied.User, copied.Password, copied.TLSConfig, copied.Fallbacks
	}
}

// findsTables refuses another user whose search path, which may contain a schema named after the user, leads to other
// tables. This server's connections name their schema, but those of the next start would not. A database that does not
// answer in limits.ping is a refusal, too: the connections that are made wait for this.
func (k *credentials) findsTables(ctx context.Context, found *pgx.ConnConfig) error {
	limit := k.options.limits.ping
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	config := found.Copy()
	config.ConnectTimeout = limit / time.Duration(len(places(found))-1) // of each host
	config.DefaultQueryExecMode, config.DialFunc = pgx.QueryExecModeExec, briefly(config.DialFunc)
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("it names another user: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the connection or transaction is no longer needed
	var current, filled sql.NullString
	if err := conn.QueryRow(ctx, "SELECT current_schema(), ("+filledSchemaSQL+")").Scan(&current, &filled); err != nil {
		return fmt.Errorf("it names another user: %w", err)
	}
	if current.String != k.schema || filled != current {
		return fmt.Errorf("it names another user, whose search path does not lead to the tables in the schema %q, or who may not write them: name the schema (--schema), "+
			"or set the search path of the role", k.schema)
	}
	return nil
}

func (k *credentials) read() (*pgx.ConnConfig, error) {
	database := k.options.URL
	if k.options.RereadURL != nil {
		var err error
		if database, err = k.options.RereadURL(); err != nil {
			return nil, err
		}
	}
	if !isPostgres(database) { // a file that is being rewritten is empty in between
		return nil, errors.New("it names no Postgres")
	}
	config, err := parsePostgres(database)
	if err != nil {
		return nil, err
	}
	return config.ConnConfig, nil
}

// places returns the database and the addresses that a connection may lead to.
func places(c *pgx.ConnConfig) []string {
	all := []string{c.Database, fmt.Sprint(c.Host, " ", c.Port)}
	for _, f := range c.Fallbacks { // an address may occur twice, with and without TLS
		if place := fmt.Sprint(f.Host, " ", f.Port); !slices.Contains(all[1:], place) {
			all = append(all, place)
		}
	}
	return all
}
