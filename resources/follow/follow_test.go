package follow_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/follow"
)

// While the database does not answer, nothing is forgotten, opened or delivered again: the same watches are read again.
func TestUnavailable(t *testing.T) {
	f := newFixture(t)
	f.write(resources.Create, "things", "old")
	down := fmt.Errorf("no answer: %w", resources.ErrUnavailable)
	f.fail("open", down, down)
	s := f.source()
	s.Existing = true
	got := f.follow(s, f.do(true, func() {
		f.fail("next", down, down, down)
		f.write(resources.Create, "things", "new")
		f.write(resources.Create, "others", "one")
	}), f.do(false, nothing))
	f.check(got, "begin", "1 things/old", "1 things/new", "1 others/one")
	if n := f.store.opened.Load(); n != 2 {
		t.Errorf("%d watches were opened", n)
	}
}

// A lasting error is logged once; another error, or the same after a success, is logged again.
func TestFailuresAreSaidOnce(t *testing.T) {
	f := newFixture(t)
	down := fmt.Errorf("no answer: %w", resources.ErrUnavailable)
	f.fail("open", down, down, down, errors.New("another"), down)
	var log bytes.Buffer
	s := f.source()
	s.Logger = slog.New(slog.NewTextHandler(&log, nil))
	f.follow(s, f.do(true, func() {
		f.fail("next", down, down)
		f.write(resources.Create, "things", "new")
	}), f.do(false, nothing))
	if said := strings.Count(log.String(), "level=WARN"); said != 4 {
		t.Errorf("said %d times, not 4:\n%s", said, &log)
	}
}

// Where history was lost, everything begins with the existing objects.
func TestExpired(t *testing.T) {
	for name, failure := range map[string]error{"expired": &resources.ExpiredError{Requested: 1, Oldest: 2}, "unforeseen": errors.New("unforeseen")} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.write(resources.Create, "things", "old")
			s := f.source()
			s.Existing = true
			got := f.follow(s, f.do(true, func() {
				f.fail("next", failure)
				f.write(resources.Create, "things", "new")
				f.write(resources.Delete, "things", "old")
			}), f.do(true, nothing))
			f.check(got, "begin", "1 things/old", "begin", "1 things/new")
		})
	}
}

// Only the named objects are followed, in pages.
func TestObjects(t *testing.T) {
	f := newFixture(t)
	for i := range follow.PageSize + 1 {
		f.write(resources.Create, "things", fmt.Sprintf("%04d", i))
	}
	f.write(resources.Create, "others", "one")
	f.write(resources.Create, "others", "two")
	s := f.source()
	s.Existing = true
	got := f.follow(s, f.do(true, func() { f.write(resources.Update, "others", "two"); f.write(resources.Update, "others", "one") }), f.do(false, nothing))
	if want := 1 + follow.PageSize + 1 + 2; len(got) != want {
		t.Fatalf("told %d, want %d", len(got), want)
	}
	f.check(got[len(got)-2:], "1 others/one", "2 others/one")
}

// A failed turn is repeated as a whole one; a turn whose time has come, and one after Changed, are whole, too.
func TestWholeTurns(t *testing.T) {
	f := newFixture(t)
	s, changed := f.source(), make(chan struct{})
	s.Changed = func() <-chan struct{} { return changed }
	f.follow(s,
		f.do(true, func() { f.write(resources.Create, "things", "a") }),
		func(turn follow.Turn) (time.Duration, error) {
			if turn.Whole {
				t.Error("the turn of an event is whole")
			}
			return 0, errors.New("not now")
		},
		func(turn follow.Turn) (time.Duration, error) {
			if !turn.Whole {
				t.Error("the turn after a failure is not whole")
			}
			return time.Nanosecond, nil
		},
		f.do(true, func() {
			was := changed
			changed = make(chan struct{})
			close(was)
		}),
		f.do(true, func() { f.write(resources.Update, "things", "a") }),
		f.do(false, nothing))
}

// The types of a registry are followed as they come and go, and a turn has the catalog that it is for.
func TestTypes(t *testing.T) {
	f := newFixture(t)
	registry := resources.NewRegistry()
	set := func(names ...string) {
		v := resources.VersionSpec{Version: "v1"}
		for _, name := range names {
			v.Types = append(v.Types, &resources.Type{GroupResource: schema.GroupResource{Resource: name}, Kind: name})
		}
		registry.SetGroup(resources.GroupSpec{Versions: []resources.VersionSpec{v}})
	}
	set("things", "ignored")
	for _, resource := range []string{"things", "ignored", "others"} {
		f.write(resources.Create, resource, "old")
	}
	s := f.source()
	s.Objects, s.Existing, s.Registry, s.Types = nil, true, registry, func(t *resources.Type) bool { return t.Resource != "ignored" }
	step := func(whole bool, what func()) func(follow.Turn) (time.Duration, error) {
		return func(t follow.Turn) (time.Duration, error) {
			if t.Catalog != registry.Catalog() {
				f.Error("the catalog of a turn is not the present one")
			}
			return f.do(whole, what)(t)
		}
	}
	got := f.follow(s,
		step(true, func() { set("things", "others", "ignored") }),
		step(false, func() { f.write(resources.Delete, "things", "old"); set("others") }),
		step(false, func() { f.write(resources.Create, "things", "unseen"); f.write(resources.Create, "others", "new") }),
		step(false, nothing))
	f.check(got, "begin", "1 things/old", "1 others/old", "3 things/old", "1 others/new")
}
