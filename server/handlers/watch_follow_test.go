package handlers

import (
	"context"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/untyped/untypedtest"
)

// shownDefinitions are registered up to a revision.
type shownDefinitions struct {
	Definitions
	through, newest int64
}

func (d *shownDefinitions) HasSeen(revision int64) bool { return revision <= d.through }

func (d *shownDefinitions) Seen(context.Context) error {
	d.through = d.newest
	return nil
}

// A watch of custom resources steps aside from the others of its connection only to wait for definitions.
func TestWatchStaysInLine(t *testing.T) {
	registry, v1 := resources.NewRegistry(), untypedtest.Versions()[0]
	if err := untypedtest.Serve(registry, v1); err != nil {
		t.Fatal(err)
	}
	c := registry.Catalog()
	s, ok := c.Lookup(v1.GV().WithResource("toys"))
	if !ok {
		t.Fatal("toys are not served")
	}
	s.Requires = &resources.Requirement{}
	d := &shownDefinitions{through: 5, newest: 7}
	w := &watchStream{h: &Handlers{Config: Config{Registry: registry, Definitions: d}}, q: &request{ctx: t.Context(), served: s}, catalog: c.Replaced()}
	w.stall.limit = time.Hour
	for _, step := range []struct {
		read  int64
		stays bool // in line with the others
	}{{4, true}, {5, true}, {6, false}, {7, true}} {
		w.read = step.read
		w.stall.begin()
		if err := w.follow(); err != nil {
			t.Fatal(err)
		}
		if w.stall.begun != step.stays {
			t.Errorf("at revision %d the watch stays in line: %t, want %t", step.read, w.stall.begun, step.stays)
		}
		if w.stall.done(); d.through < step.read {
			t.Errorf("definitions are registered up to %d, and the watch is at %d", d.through, step.read)
		}
	}
}
