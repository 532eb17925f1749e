package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/sqlstore/pgtest"
)

// A server that starts before its database waits for it.
func TestOpenWaits(t *testing.T) {
	c := newCluster(t)
	if err := c.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	c.Wait()
	if s, err := Open(context.Background(), Options{URL: c.URL()}); err == nil {
		s.Close()
		t.Error("opened without AwaitTimeout")
	}
	said, log := io.Pipe()
	opened := make(chan error)
	go func() {
		s, err := Open(context.Background(), Options{URL: c.URL(), AwaitTimeout: time.Hour, Logger: slog.New(slog.NewTextHandler(log, nil))})
		if err == nil {
			err = s.Close()
		}
		opened <- err
	}()
	line := make([]byte, 1<<10)
	n, err := said.Read(line)
	if err != nil || !strings.Contains(string(line[:n]), "cannot be used yet") {
		t.Errorf("said %q, %v", line[:n], err)
	}
	go func() { _, _ = io.Copy(io.Discard, said) }()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Error(err)
	}
	log.Close()
}

// CheckTables waits for the database, too. Otherwise Open would wait, and upgrade tables that CheckTables has not seen.
func TestCheckTablesWaits(t *testing.T) {
	h, c := newBreakable(t)
	h.close(t)
	if _, err := admin(t, c.URL()).Exec(t.Context(), setSearchPathOf(h.schema)+"; UPDATE schema_migrations SET version = version - 1"); err != nil {
		t.Fatal(err)
	}
	if err := c.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	c.Wait()
	o := h.options()
	if o.AwaitTimeout = 0; CheckTables(t.Context(), o) == nil {
		t.Error("nothing was checked")
	}
	said, log := io.Pipe()
	o.AwaitTimeout, o.Clock, o.Logger = time.Hour, nil, slog.New(slog.NewTextHandler(log, nil))
	checked := make(chan error)
	go func() { checked <- CheckTables(context.Background(), o) }()
	if _, err := said.Read(make([]byte, 1<<10)); err != nil { // it waits
		t.Error(err)
	}
	go func() { _, _ = io.Copy(io.Discard, said) }()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if err := <-checked; err == nil || !strings.Contains(err.Error(), "only servers bring them to") {
		t.Errorf("older tables: %v", err)
	}
	log.Close()
}

// Open does not wait if an error cannot go away.
func TestOpenDoesNotWaitForWhatStays(t *testing.T) {
	c, err := cluster()
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []string{strings.Replace(c.URL(), "/postgres?", "/nosuch?", 1), strings.Replace(c.URL(), "user=postgres", "user=nobody", 1)} {
		s, err := Open(context.Background(), Options{URL: wrong, AwaitTimeout: 100 * time.Hour})
		if err == nil {
			s.Close()
			t.Errorf("%s was opened", wrong)
		}
	}
}

// Open waits when a connection breaks at any message, just as for a database that is not there.
func TestOpenThroughBreaks(t *testing.T) {
	c, err := cluster()
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := pgtest.NewProxy(c)
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	for _, answered := range []bool{false, true} {
		breaks := 0
		for n := int64(0); ; n++ {
			h := &postgresHarness{url: proxy.URL(), schema: fmt.Sprintf("Break %v %d", answered, n)}
			o := h.options()
			o.Clock = hasty{clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))}
			o.AwaitTimeout = 10 * time.Second
			proxy.BreakAfter(n, answered)
			s, err := Open(t.Context(), o)
			if err != nil {
				t.Fatalf("the connection breaks at message %d: %v", n, err)
			}
			broke := proxy.Broke()
			proxy.BreakAfter(1<<62, false)
			if made := mustCommit(t, s, createMap(t, "a"))[0]; made.Revision != 2 {
				t.Errorf("the connection breaks at message %d: the first revision is %d", n, made.Revision)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if !broke {
				break
			}
			breaks++
		}
		if breaks < 10 {
			t.Errorf("the connection broke at %d messages only", breaks)
		}
	}
}

// hasty is a clock on which waiting takes no time.
type hasty struct{ *clocktesting.FakeClock }

func (c hasty) NewTimer(d time.Duration) clock.Timer {
	timer := c.FakeClock.NewTimer(d)
	c.Step(d)
	return timer
}

// Await ends with the reason, and at once for an error that cannot pass.
func TestAwaitEnds(t *testing.T) {
	fake := hasty{clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))}
	o := Options{Clock: fake, AwaitTimeout: 10 * time.Second, Logger: slog.New(slog.DiscardHandler)}
	for _, tc := range []struct {
		err   error
		tries int
	}{{&pgconn.PgError{Code: "57P03"}, 11}, {&pgconn.PgError{Code: "28P01"}, 1}, {&pgconn.PgError{Code: "40P01"}, 11}, {io.EOF, 11}, {errors.New("of another kind"), 1},
		{resources.ErrUnavailable, 11}, {fmt.Errorf("%w: %w", resources.ErrUnavailable, &pgconn.PgError{Code: "42501"}), 1}} {
		tries := 0
		err := o.await(context.Background(), func() error {
			tries++
			return tc.err
		})
		if !errors.Is(err, tc.err) || tries != tc.tries {
			t.Errorf("%v: after %d tries: %v", tc.err, tries, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	err := o.await(ctx, func() error {
		cancel()
		return &pgconn.PgError{Code: "57P03"}
	})
	var refused *pgconn.PgError
	if !errors.Is(err, context.Canceled) || !errors.As(err, &refused) {
		t.Errorf("told to stop: %v", err)
	}
}

// Await also waits for keys that cannot be had, once more after they have come. What is damaged does not become whole.
func TestAwaitWaitsForKeys(t *testing.T) {
	sealed := fmt.Errorf("rows: %w", &resources.TransformError{Err: errors.New("no key")})
	for name, tc := range map[string]struct {
		err     error
		missing []bool // one answer after the other; the last one again
		tries   int
	}{
		"missing":      {sealed, []bool{true}, 11},
		"come":         {sealed, []bool{true, true, false}, 4},
		"come at once": {sealed, []bool{false}, 2},
		"never needed": {sealed, nil, 1},
		"damaged":      {&resources.TransformError{Err: errors.New("no JSON"), Undecodable: true}, []bool{true}, 1},
		"a file":       {resources.ErrUnavailable, []bool{true}, 1},
	} {
		s := &Store{options: Options{Clock: hasty{clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))}, AwaitTimeout: 10 * time.Second, Logger: slog.New(slog.DiscardHandler)}}
		if left := tc.missing; left != nil {
			s.options.KeysMissing = func() bool {
				now := left[0]
				left = left[min(1, len(left)-1):]
				return now
			}
		}
		tries := 0
		err := s.Await(t.Context(), func() error {
			tries++
			return tc.err
		})
		if !errors.Is(err, tc.err) || tries != tc.tries {
			t.Errorf("%s: after %d tries: %v", name, tries, err)
		}
	}
}
