package controlplane_test

import (
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/controlplane"
	"github.com/rowlock/rowlock/server/servertest"
)

// patience is how long a test waits for what must come. It is only reached by a test that fails.
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

// newWhole makes a server that knows everybody who says so, with what exists from the start.
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
