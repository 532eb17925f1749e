package sqlstore

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/sqlstore/pgtest"
)

// A pooler may send a statement to a standby, wherever the connection led when it was made. A standby's counter is not
// used.
func TestCounterOfAStandby(t *testing.T) {
	t.Parallel()
	primary := newCluster(t)
	s := openStore(t, Options{URL: primary.URL()})
	mustCommit(t, s, createMap(t, "a"))
	for name, cluster := range map[string]*pgtest.Cluster{"primary": primary, "standby": newReplica(t, primary)} {
		pool, err := pgxpool.New(t.Context(), cluster.URL())
		if err != nil {
			t.Fatal(err)
		}
		p := &postgresDriver{pool: pool, limits: usualLimits}
		found, err := p.counter(t.Context())
		pool.Close()
		switch {
		case name == "primary" && (err != nil || found == 0):
			t.Errorf("of the primary: %d, %v", found, err)
		case name == "standby" && (!errors.Is(err, resources.ErrUnavailable) || !errors.Is(err, errStandby)):
			t.Errorf("of the standby: %d, %v", found, err)
		}
	}
}
