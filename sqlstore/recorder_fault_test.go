package sqlstore

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	neturl "net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/storetest"
	"github.com/rowlock/rowlock/sqlstore/sqltest"
)

// Changes that are not recorded yet stay in the log twice as long, but not beyond the bound of its size; if that prunes
// them, a gap is reported.
func TestPruneWaitsForObjectHistory(t *testing.T) {
	withHistory(t, func(t *testing.T, open func(ObjectHistory) *Store, clock interface{ Step(time.Duration) }) {
		s := open(ObjectHistory{Age: time.Hour})
		historyOf(t, s, resources.RevisionQuery{})
		s.recorder.mu.Lock() // so that it records nothing
		held := true
		release := func() {
			if held {
				s.recorder.mu.Unlock()
			}
			held = false
		}
		defer release()
		first := s.revisions.current.Load()
		mustCommit(t, s, createMap(t, "a"), createMap(t, "b"))
		clock.Step(storetest.HistoryAge + storetest.HistoryAge/2)
		if _, err := s.janitor.prune(); err != nil || s.floor.Load() > first {
			t.Errorf("pruned up to %d, beyond %d: %v", s.floor.Load(), first, err)
		}
		clock.Step(storetest.HistoryAge)
		if _, err := s.janitor.prune(); err != nil || s.floor.Load() != first+2 {
			t.Errorf("pruned up to %d, want %d: %v", s.floor.Load(), first+2, err)
		}
		gaps := testutil.ToFloat64(s.recorder.metrics.gaps)
		mustCommit(t, s, createMap(t, "c"))
		release()
		wantHistoryOf(t, s, resources.RevisionQuery{}, "create configmaps/default/c   []")
		if got := testutil.ToFloat64(s.recorder.metrics.gaps); got != gaps+1 {
			t.Errorf("%v gaps, want %v", got, gaps+1)
		}
	})
}

// Changes of which nothing is kept are passed without a commit, and the position is stored before the log is pruned.
func TestObjectHistoryOfNothing(t *testing.T) {
	withHistory(t, func(t *testing.T, open func(ObjectHistory) *Store, clock interface{ Step(time.Duration) }) {
		s := open(ObjectHistory{Age: time.Hour})
		historyOf(t, s, resources.RevisionQuery{})
		told := s.recorder.revision.Load()
		mustCommit(t, s, object(t, "events", "shop", "e", "u", `"x":1`))
		historyOf(t, s, resources.RevisionQuery{})
		s.recorder.mu.Lock()
		seen := s.recorder.seen
		s.recorder.mu.Unlock()
		if got := s.recorder.revision.Load(); got != told || seen != told+1 {
			t.Errorf("told of %d, seen %d; want %d and %d", got, seen, told, told+1)
		}
		clock.Step(storetest.HistoryAge / 4)
		s.recordNow(t)
		if got := s.recorder.revision.Load(); got != told+1 {
			t.Errorf("told of %d, want %d", got, told+1)
		}
	})
}

// patientLimits are for a busy machine: no operation fails for being slow.
func patientLimits() limits {
	l := usualLimits
	for _, d := range []*time.Duration{&l.step, &l.read, &l.rows, &l.lookUp, &l.lock, &l.idle, &l.ping} {
		*d *= 8
	}
	return l
}

// Two servers that record at once keep every write once.
func TestObjectHistoryOfServers(t *testing.T) {
	h := newPostgresHarness(t)
	h.close(t)
	var servers []*Store
	for range 2 {
		options := h.options()
		options.limits = patientLimits()
		options.ObjectHistory = ObjectHistory{Age: time.Hour, Revisions: math.MaxInt32}
		s, err := Open(context.Background(), options)
		if err != nil {
			t.Fatal(err)
		}
		servers = append(servers, s)
	}
	h.store, h.reader = servers[0], servers[1]
	const each = 200
	var wg sync.WaitGroup
	for i, s := range servers {
		wg.Go(func() {
			for n := range each {
				if _, err := s.Commit(context.Background(), createMap(t, fmt.Sprintf("%d-%d", i, n))); err != nil {
					t.Error(err)
				}
				if n%7 == 0 {
					if err := s.RecordHistory(context.Background()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	if got := historyOf(t, servers[0], resources.RevisionQuery{}); len(got) != 2*each {
		t.Errorf("%d revisions, want %d", len(got), 2*each)
	}
	servers[0].wantCounted(t)
}

// A step that fails at its end has no effect, and the next one does all of its work, once.
func TestObjectHistoryStepIsWhole(t *testing.T) {
	withHistory(t, func(t *testing.T, open func(ObjectHistory) *Store, clock interface{ Step(time.Duration) }) {
		s := open(ObjectHistory{Age: time.Hour})
		historyOf(t, s, resources.RevisionQuery{})
		at := s.recorder.revision.Load()
		refuse, allow := `CREATE TRIGGER refuse BEFORE UPDATE ON recording BEGIN SELECT RAISE(ABORT, 'not now'); END`, `DROP TRIGGER refuse`
		if s.peers != nil {
			refuse = `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not now'; END $$;
			CREATE TRIGGER refuse BEFORE UPDATE ON recording FOR EACH ROW EXECUTE FUNCTION refuse()`
			allow = `DROP TRIGGER refuse ON recording`
		}
		s.exec(t, refuse)
		mustCommit(t, s, createMap(t, "a"), createMap(t, "b"))
		if err := s.RecordHistory(t.Context()); err == nil {
			t.Error("what was refused was recorded")
		}
		if found, _, err := s.ObjectHistory(t.Context(), resources.RevisionQuery{}); err != nil || len(found) != 0 {
			t.Errorf("%d are there, %v", len(found), err)
		}
		if recorded, err := s.RecordedAt(t.Context()); err != nil || recorded != at {
			t.Errorf("recorded up to %d, %v, want %d", recorded, err, at)
		}
		s.exec(t, allow)
		wantHistoryOf(t, s, resources.RevisionQuery{}, "create configmaps/default/a   []", "create configmaps/default/b   []")
		s.wantCounted(t)
	})
}

// recorderVariable makes the test binary write and record, and print its progress; its value is the URL and the schema,
// in lines.
const recorderVariable = "ROWLOCK_TEST_RECORDER"

func recordUntilKilled(where string) error {
	url, schema, _ := strings.Cut(where, "\n")
	s, err := Open(context.Background(), Options{URL: url, Schema: schema, Logger: slog.New(slog.DiscardHandler),
		ObjectHistory: ObjectHistory{Age: time.Hour}})
	if err != nil {
		return err
	}
	go func() {
		for err := error(nil); err == nil; err = s.RecordHistory(context.Background()) {
			fmt.Println("recorded")
		}
	}()
	for i := 0; err == nil; i++ {
		err = updateOften(s, fmt.Sprintf("%d-%d", os.Getpid(), i), 3)
	}
	return err
}

// awaitGone waits until Postgres has finished the last statements of a killed process, which may include a COMMIT.
func awaitGone(t *testing.T, o Options, name string) {
	t.Helper()
	if !isPostgres(o.URL) {
		return
	}
	ctx := testContext(t)
	for {
		rows, err := sqltest.Ask(ctx, o.URL, o.Schema, "SELECT count(*) FROM pg_stat_activity WHERE application_name = "+textSQL(name))
		if err != nil {
			t.Fatal(err)
		}
		if rows[0][0] == "0" {
			return
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%s connections are still there", rows[0][0])
		}
	}
}

// A server that is killed while it writes and records leaves a history that the next one continues: it has every write
// once.
func TestObjectHistoryKilled(t *testing.T) {
	withHistory(t, func(t *testing.T, open func(ObjectHistory) *Store, _ interface{ Step(time.Duration) }) {
		for _, steps := range []int{20, 1, 33} {
			s := open(ObjectHistory{})
			o := s.options
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			url, name := o.URL, fmt.Sprintf("killed after %d of %s", steps, o.Schema)
			if isPostgres(url) {
				url += "&" + neturl.Values{"application_name": {name}}.Encode()
			}
			killAfter(t, steps, recorderVariable+"="+url+"\n"+o.Schema)
			awaitGone(t, o, name)
			s = open(ObjectHistory{Age: 1 << 60})
			got := historyOf(t, s, resources.RevisionQuery{})
			if written := s.revisions.current.Load() - 1; int64(len(got)) != written {
				t.Errorf("%d writes are in the history, want %d", len(got), written)
			}
			s.wantCounted(t)
		}
	})
}
