package follow_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/follow"
)

// inventory is a Handler that records which types are followed.
type inventory struct {
	*testing.T
	types map[string]bool
	quiet func(follow.Turn)
}

func (i *inventory) Begin() { i.types = map[string]bool{} }

func (i *inventory) Observe([]*resources.Event) {}

func (i *inventory) Opened(resource string) {
	if i.types[resource] {
		i.Errorf("%s is opened twice", resource)
	}
	i.types[resource] = true
}

func (i *inventory) Closed(resource string, _ schema.GroupKind) {
	if !i.types[resource] {
		i.Errorf("%s is closed and was not open", resource)
	}
	delete(i.types, resource)
}

func (i *inventory) Turn(_ context.Context, t follow.Turn) (time.Duration, error) {
	if t.Quiet {
		i.quiet(t)
	}
	return 0, nil
}

// However types come, go and change, and whatever fails meanwhile, in the end exactly the existing types are followed.
func TestTypesThatComeAndGo(t *testing.T) {
	f := newFixture(t)
	registry := resources.NewRegistry()
	random := rand.New(rand.NewPCG(3, 8))
	change := func() {
		registry.Edit(func(e *resources.Edit) {
			for range 1 + random.IntN(3) {
				group := resources.GroupSpec{Name: fmt.Sprint("g", random.IntN(5)), Priority: random.IntN(2)}
				v := resources.VersionSpec{Version: "v1"}
				for i := range random.IntN(4) {
					v.Types = append(v.Types, &resources.Type{GroupResource: schema.GroupResource{Group: group.Name, Resource: fmt.Sprint("r", i)}, Kind: "R"})
				}
				group.Versions = append(group.Versions, v)
				if e.SetGroup(group); len(v.Types) == 0 {
					e.RemoveGroup(group.Name)
				}
			}
		})
	}
	ctx, stop := context.WithCancel(f.ctx)
	defer stop()
	s := f.source()
	s.Objects = []resources.Key{{Resource: "r0.g0"}} // one type is always followed
	s.Registry, s.Types = registry, func(t *resources.Type) bool { return t.Resource != "r3" }
	steps := 0
	i := &inventory{T: t}
	i.quiet = func(turn follow.Turn) {
		want := map[string]bool{}
		for typ := range turn.Catalog.Types {
			if typ.Resource != "r3" && typ.ResourceName() != "r0.g0" {
				want[typ.ResourceName()] = true
			}
		}
		if got := maps.Clone(i.types); !maps.Equal(got, want) {
			t.Errorf("step %d: followed are %q, there are %q", steps, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
		if n := f.store.open.Load(); int(n) != len(want)+1 {
			t.Errorf("step %d: %d watches are open, want %d", steps, n, len(want)+1)
		}
		if steps++; steps == 300 {
			stop()
			return
		}
		change()
	}
	f.store.fail = func(string) error { // half of a change may be adopted when the next one comes
		if random.IntN(4) > 0 {
			return nil
		}
		change()
		return resources.ErrUnavailable
	}
	follow.Run(ctx, s, i)
	if f.ctx.Err() != nil {
		t.Errorf("%d steps were made", steps)
	}
	if n := f.store.open.Load(); n != 0 {
		t.Errorf("%d watches are left open", n)
	}
}

// A type with an unreadable object keeps no other from being followed, and is delivered with all others once the object is
// readable.
func TestTypesThatCannotBeRead(t *testing.T) {
	f := newFixture(t)
	registry := resources.NewRegistry()
	registry.Edit(func(e *resources.Edit) {
		v := resources.VersionSpec{Version: "v1"}
		for _, name := range []string{"r0", "r1"} {
			v.Types = append(v.Types, &resources.Type{GroupResource: schema.GroupResource{Group: "g", Resource: name}, Kind: "R" + name})
		}
		e.SetGroup(resources.GroupSpec{Name: "g", Versions: []resources.VersionSpec{v}})
	})
	ctx, stop := context.WithCancel(f.ctx)
	defer stop()
	var log bytes.Buffer
	s := f.source()
	s.Objects, s.Registry, s.Logger = nil, registry, slog.New(slog.NewTextHandler(&log, nil))
	f.fail("snapshot r0.g", &resources.TransformError{Err: errors.New("no key")})
	var told []string
	i := &inventory{T: t}
	i.quiet = func(turn follow.Turn) {
		told = append(told, fmt.Sprint(slices.Sorted(maps.Keys(i.types)), turn.Unread))
		if len(turn.Unread) == 0 {
			stop()
		}
	}
	follow.Run(ctx, s, i)
	if want := []string{"[r1.g] [r0.g]", "[r0.g r1.g] []"}; !slices.Equal(told, want) {
		t.Errorf("followed, and left out: %q, want %q", told, want)
	}
	if n := strings.Count(log.String(), "no key"); n != 1 {
		t.Errorf("said %d times:\n%s", n, &log)
	}
}

// A type that is removed while it is unreadable is not waited for.
func TestTypesThatGoUnread(t *testing.T) {
	f := newFixture(t)
	registry := resources.NewRegistry()
	serve := func(names ...string) {
		registry.Edit(func(e *resources.Edit) {
			v := resources.VersionSpec{Version: "v1"}
			for _, name := range names {
				v.Types = append(v.Types, &resources.Type{GroupResource: schema.GroupResource{Group: "g", Resource: name}, Kind: "R" + name})
			}
			e.SetGroup(resources.GroupSpec{Name: "g", Versions: []resources.VersionSpec{v}})
		})
	}
	serve("r0", "r1")
	ctx, stop := context.WithCancel(f.ctx)
	defer stop()
	s := f.source()
	s.Objects, s.Registry = nil, registry
	f.store.fail = func(call string) error {
		if call == "snapshot r0.g" {
			return &resources.TransformError{Err: errors.New("no key")}
		}
		return nil
	}
	var unread []string
	i := &inventory{T: t}
	i.quiet = func(turn follow.Turn) {
		if unread = append(unread, fmt.Sprint(turn.Unread)); len(turn.Unread) == 0 {
			stop()
		} else {
			serve("r1")
		}
	}
	follow.Run(ctx, s, i)
	if f.ctx.Err() != nil || unread[0] != "[r0.g]" {
		t.Errorf("left out: %q", unread[:min(len(unread), 9)])
	}
}
