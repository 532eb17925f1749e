package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/rowlock/rowlock/e2e/harness"
)

// startable is a server that compare knows how to start.
type startable struct {
	binaries []string
	start    func(ctx context.Context, dir string) (*harness.Server, error)
}

// startables returns the servers by the names that --servers takes.
func startables() map[string]startable {
	peer := func(backend harness.Backend) startable {
		return startable{backend.Binaries(), func(ctx context.Context, dir string) (*harness.Server, error) {
			return harness.StartKubeAPIServer(ctx, backend, dir)
		}}
	}
	return map[string]startable{
		"rowlock": {[]string{"rowlock"}, func(ctx context.Context, dir string) (*harness.Server, error) {
			return harness.StartRowlock(ctx, harness.RowlockOptions{DataDir: dir})
		}},
		"etcd": peer(harness.Etcd),
		"kine": peer(harness.KineSQLite),
	}
}

// compare builds all the servers first, then starts, measures and stops one after another, each with a fresh store. With
// an error it returns the results until then.
func compare(ctx context.Context, names []string, o options) ([]*Server, error) {
	known := startables()
	for _, name := range names {
		server, ok := known[name]
		if !ok {
			return nil, fmt.Errorf("unknown server %q: rowlock, etcd and kine can be compared", name)
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
func startAndMeasure(ctx context.Context, s startable, o options) (*Server, error) {
	dir, err := os.MkdirTemp("", "rowlock-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	server, err := s.start(ctx, dir)
	if err != nil {
		return nil, err
	}
	result, err := measure(ctx, target{
		Name: server.Name, Kubeconfig: server.Kubeconfig, PIDs: server.PIDs(), DataDir: server.DataDir, Ended: server.Ended(),
	}, o)
	if err != nil {
		server.Kill()
		return nil, fmt.Errorf("%w\n%s", err, server.Output())
	}
	result.StartToReady = server.StartToReady
	if result.Ended != "" {
		result.LastWords = lastWords(server.Output())
		server.Kill() // what is left of it
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
