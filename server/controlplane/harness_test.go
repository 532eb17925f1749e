package controlplane_test

import (
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/controlplane"
	"github.com/rowlock/rowlock/server/servertest"
)

// patience is how long a test waits for an expected result. Only a failing test waits that long.
const patience = 2 * time.Minute

// kept is a server with its control plane, as clients see it.
type kept struct {
	*testing.T
	s        *server.Server
	p        *controlplane.Plane
	store    resources.Store
	registry *resources.Registry
	pipeline *resources.Pipeline
}

// newWhole returns a bootstrapped server that believes a request's own statement of its user.
func newWhole(t *testing.T, change func(*server.Config, *controlplane.Config)) kept {
	t.Helper()
	var pc controlplane.Config
	s, c := servertest.New(t, func(c *server.Config) {
		pc = controlplane.Config{Registry: c.Registry, Store: c.Store, Pipeline: c.Pipeline, Logger: c.Logger}
		if change != nil {
			change(c, &pc)
		}
	})
	pc.Front, pc.Definitions = s, c.Definitions.(controlplane.Definitions)
	k := kept{t, s, controlplane.New(pc), c.Store.(resources.Store), c.Registry, c.Pipeline}
	if err := k.p.Bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	return k
}

var get = servertest.Get
