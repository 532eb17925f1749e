package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/rowlock/rowlock/e2e/harness"
	"github.com/rowlock/rowlock/sqlstore/pgtest"
)

// startable is a server that compare knows how to start.
type startable struct {
	binaries []string
	postgres bool // it needs a Postgres
	// start gets the URL of the Postgres, if there is one.
	start func(ctx context.Context, dir, database string) (*harness.Server, error)
}

// startables returns the servers by the names that --servers takes.
func startables() map[string]startable {
	rowlock := func(ctx context.Context, dir, database string) (*harness.Server, error) {
		return harness.StartRowlock(ctx, harness.RowlockOptions{DataDir: dir, Datastore: database,
			Args: []string{"--max-requests-inflight=3000", "--max-mutating-requests-inflight=1000"}}) // as kube-apiserver's in harness
	}
	peer := func(backend func(database string) harness.Backend) startable {
		return startable{backend("").Binaries(), false, func(ctx context.Context, dir, database string) (*harness.Server, error) {
			return harness.StartKubeAPIServer(ctx, backend(database), dir)
		}}
	}
	kinePostgres := peer(harness.KinePostgres)
	kinePostgres.postgres = true
	return map[string]startable{
		"rowlock":          {binaries: []string{"rowlock"}, start: rowlock},
		"rowlock-postgres": {[]string{"rowlock"}, true, rowlock},
		"etcd":             peer(func(string) harness.Backend { return harness.Etcd }),
		"kine":             peer(func(string) harness.Backend { return harness.KineSQLite }),
		"kine-postgres":    kinePostgres,
	}
}

// compare builds all the servers first, then starts, measures and stops one after another, each with a fresh store. On an error it returns the
// results until then.
func compare(ctx context.Context, names []string, o options) ([]*Server, error) {
	known := startables()
	for _, name := range names {
		server, ok := known[name]
		if !ok {
			return nil, fmt.Errorf("unknown server %q: %s can be compared", name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		if err := harness.Build(ctx, server.binaries...); err != nil {
			return nil, err
		}
	}
	var results []*Server
	for _, name := range names {
		result, err := startAndMeasure(ctx, known[name], o)
		if err != nil {
			return results, fmt.Errorf("%s: %w", name, err)
		}
		results = append(results, result)
	}
	return results, nil
}

// startAndMeasure measures one server and removes its files.
func startAndMeasure(ctx context.Context, s startable, o options) (_ *Server, err error) {
	dir, err := os.MkdirTemp("", "rowlock-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var postgres *pgtest.Cluster
	var database string
	if s.postgres {
		if postgres, err = pgtest.New(); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, postgres.Stop()) }()
		database = postgres.URL()
	}
	server, err := s.start(ctx, dir, database)
	if err != nil {
		return nil, err
	}
	t := target{Name: server.Name, Kubeconfig: server.Kubeconfig, PIDs: server.PIDs(), DataDir: server.DataDir, Ended: server.Ended()}
	if postgres != nil {
		t.PIDs, t.DataDir = append(t.PIDs, postgres.PID()), postgres.Dir()
		if !strings.Contains(t.Name, "/") {
			t.Name += "/Postgres"
		}
	}
	result, err := measure(ctx, t, o)
	if err != nil {
		server.Kill()
		return nil, fmt.Errorf("%w\n%s", err, server.Output())
	}
	result.StartToReady = server.StartToReady
	if result.Ended != "" {
		result.LastWords = lastWords(server.Output())
		server.Kill() // remaining processes
		return result, nil
	}
	return result, server.Stop()
}

// lastWords returns the line of a log that says why its process ended.
func lastWords(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	for _, line := range lines {
		if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") {
			return line
		}
	}
	return lines[len(lines)-1]
}
