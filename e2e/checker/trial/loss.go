package trial

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"

	"github.com/rowlock/rowlock/e2e/checker/history"
	"github.com/rowlock/rowlock/e2e/checker/record"
	"github.com/rowlock/rowlock/e2e/harness"
	"github.com/rowlock/rowlock/sqlstore/pgtest"
)

// loss is a way to lose writes: save is called while clients work, and lose when they have ended and were told more than was saved.
type loss struct {
	begin, save, lose func(*loser) error
}

// Losses are the ways to lose writes, all of Postgres.
var Losses = []string{"restore", "promote"}

var losses = map[string]loss{
	"restore": {begin: func(*loser) error { return nil }, save: (*loser).dump, lose: (*loser).restore},
	"promote": {begin: (*loser).follow, save: (*loser).partReplica, lose: (*loser).promote},
}

// loser loses writes.
type loser struct {
	*servers
	ctx     context.Context
	replica *pgtest.Cluster
	down    bool // servers are killed before the loss, and do not remember
}

// Lose lets clients work, then loses a part of their writes in one of the ways of Losses, and lets them continue with the rest. Both histories are
// verified, the second also with the rules for a loss.
func Lose(ctx context.Context, o Options, way string) (_ *Report, err error) {
	report := &Report{Faults: map[string]int{}}
	random := rand.New(rand.NewPCG(o.Seed, 2))
	dir, err := os.MkdirTemp("", "rowlock-losses-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	o.Database, o.Faults = Postgres, nil
	s := &servers{}
	if s.cluster, err = pgtest.New(); err != nil {
		return nil, err
	}
	l := &loser{servers: s, ctx: ctx, down: random.IntN(2) == 0}
	defer func() { err = errors.Join(err, l.stop()) }()
	if err := losses[way].begin(l); err != nil {
		return nil, err
	}
	if err := l.startOn(&o, dir); err != nil {
		return nil, err
	}
	report.Faults[way]++
	if err := l.rounds(&o, losses[way], report); err != nil {
		return report, errors.Join(err, s.said())
	}
	return report, nil
}

// startOn starts the servers, on whichever of the clusters is the primary.
func (l *loser) startOn(o *Options, dir string) error {
	clusters := []*pgtest.Cluster{l.cluster}
	if l.replica != nil {
		clusters = append(clusters, l.replica)
	}
	for i := range o.Servers {
		port, err := harness.FreePort()
		if err != nil {
			return err
		}
		options := harness.RowlockOptions{DataDir: filepath.Join(dir, fmt.Sprint("server-", i)), Port: port, Datastore: pgtest.FailoverURL(clusters...),
			Schema: "histories", Args: serverArgs(o)}
		l.options = append(l.options, options)
		server, err := harness.StartRowlock(l.ctx, options)
		if err != nil {
			return err
		}
		l.running = append(l.running, server)
	}
	return nil
}

func (l *loser) stop() error {
	err := l.servers.stop()
	if l.replica != nil {
		err = errors.Join(err, l.replica.Stop())
	}
	return err
}

// rounds runs the round before the loss and the one after it.
func (l *loser) rounds(o *Options, way loss, report *Report) error {
	targets, err := l.targets()
	if err != nil {
		return err
	}
	options := record.Options{Targets: targets, Namespace: fmt.Sprintf("loss-%d", o.Seed), Seed: o.Seed, Duration: o.Round, Clients: o.Clients, Watchers: o.Watchers,
		Names: o.Names, Patience: patience, EndWithin: endWithin, Leave: true}
	var saved int64
	options.Midway = func(told int64) error {
		saved = told
		return way.save(l)
	}
	report.Rounds++
	before, err := record.Round(l.ctx, options)
	if err := report.add(o, before, err); err != nil {
		return err
	}
	options.Seed++
	options.Midway, options.Leave, options.Loss = nil, false, history.NewLoss(before, saved)
	options.Lose = func() error { return l.happens(way) }
	report.Rounds++
	after, err := record.Round(l.ctx, options)
	return report.add(o, after, err)
}

// happens loses the writes. Running servers have to find out; servers that are started afterwards do not know of the loss.
func (l *loser) happens(way loss) error {
	if !l.down {
		return way.lose(l)
	}
	for _, server := range l.running {
		server.Kill()
	}
	if err := way.lose(l); err != nil {
		return err
	}
	for i := range l.running {
		if err := l.restart(l.ctx, i, func() {}); err != nil {
			return err
		}
	}
	return nil
}

func (l *loser) dump() error {
	return l.cluster.Run("pg_dump", "--format=custom", "--file", l.cluster.Dir()+"/dump", "postgres")
}

func (l *loser) restore() error {
	return l.cluster.Run("pg_restore", "--clean", "--if-exists", "--dbname=postgres", l.cluster.Dir()+"/dump")
}

func (l *loser) follow() (err error) {
	l.replica, err = l.cluster.Replica()
	return err
}

// partReplica stops the replica once it has all present commits.
func (l *loser) partReplica() error {
	const behind = `DO $$ DECLARE now pg_lsn := pg_current_wal_lsn(); BEGIN
		WHILE NOT EXISTS (SELECT 1 FROM pg_stat_replication WHERE replay_lsn >= now) LOOP
			PERFORM pg_sleep(0.01); PERFORM pg_stat_clear_snapshot();
		END LOOP; END $$`
	if err := l.cluster.Run("psql", "--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--command", behind); err != nil {
		return err
	}
	if err := l.replica.Signal(syscall.SIGINT); err != nil {
		return err
	}
	l.replica.Wait()
	return nil
}

// promote makes the replica the primary, after the primary has died.
func (l *loser) promote() error {
	if err := l.cluster.Kill(); err != nil {
		return err
	}
	if err := l.replica.Start(); err != nil {
		return err
	}
	return l.replica.Promote()
}
