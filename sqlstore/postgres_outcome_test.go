package sqlstore

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowlock/rowlock/resources"
)

// After a crash the database may assign the number of a lost transaction to another one, which commits: the log then
// has the batch of that one, and not the lost batch.
func TestOutcomeOfANumberGivenTwice(t *testing.T) {
	h := newPostgresHarness(t)
	seen := h.store.position.revision
	batchOf := func(name string) *batch {
		p := &batchBuilder{state: h.store.tree, revision: seen}
		if _, err := p.add([]resources.Write{createMap(t, name)}, expiry, h.clock.Now()); err != nil {
			t.Fatal(err)
		}
		return &batch{at: h.clock.Now().UnixMilli(), revision: p.revision, changes: p.changes}
	}
	lost, kept := batchOf("lost"), batchOf("kept")
	begun, _, err := h.store.db.begin(seen)
	if err != nil {
		t.Fatal(err)
	}
	number := begun.(*postgresTransaction).xid
	if err := begun.commit(kept); err != nil {
		t.Fatal(err)
	}
	tx := &postgresTransaction{driver: h.store.peers.db, xid: number, origin: begun.(*postgresTransaction).origin}
	for _, c := range []struct {
		name string
		b    *batch
		want outcome
	}{{"the batch of the log", kept, outcomeCommitted}, {"the batch that is not in the log", lost, outcomeAborted}} {
		if was, err := tx.outcome(c.b); err != nil || was != c.want {
			t.Errorf("%s: %q, %v, want %q", c.name, was, err, c.want)
		}
	}
	mustCommit(t, h.store, createMap(t, "next")) // the store takes over the log
	if _, err := h.store.peers.db.prune(lost.revision); err != nil {
		t.Fatal(err)
	}
	if was, err := tx.outcome(lost); err != nil || was != outcomeUnknown {
		t.Errorf("after the log was pruned: %q, %v, want %q", was, err, outcomeUnknown)
	}
}

// TestRefusals checks which failures of the database are taken for the fault of the data, so that clients do not repeat the request.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		code, severity, routine string
		want                    bool
	}{
		{"22P02", "ERROR", "", true}, {"23514", "ERROR", "ExecConstraints", true}, {"54000", "ERROR", "_bt_check_third_page", true},
		{"23505", "ERROR", "_bt_check_unique", false}, {"54000", "FATAL", "", false}, {"40001", "ERROR", "", false}, {"53100", "ERROR", "", false},
		{"54000", "ERROR", "PreCommit_Notify", false}, // too many notifications in the NOTIFY queue
	} {
		err := fmt.Errorf("commit: %w", &pgconn.PgError{Code: c.code, SeverityUnlocalized: c.severity, Routine: c.routine})
		if got := isRefusal(err); got != c.want {
			t.Errorf("%+v: refused %v", c, got)
		}
	}
	if isRefusal(errors.New("connection reset")) {
		t.Error("an error that the database has not sent is taken for a refusal")
	}
}

// TestNotifiesAgain checks that a server that commits without notifications, because their queue was full, notifies others again with the
// first batch for which there is room.
func TestNotifiesAgain(t *testing.T) {
	h := newPostgresHarness(t)
	h.limits = usualLimits
	h.limits.poll = 1 << 40 // it never looks for changes without a notification
	peer := h.openPeer(t)
	sees(t, h.store, 2)
	w, err := peer.Watch(testContext(t), resources.WatchOptions{Resource: "configmaps", After: peer.revisions.current.Load()})
	if err != nil {
		t.Fatal(err)
	}
	full := fmt.Errorf("commit: %w", &pgconn.PgError{Code: "54000", SeverityUnlocalized: "ERROR", Routine: "PreCommit_Notify"})
	if !isQueueFull(full) || isQueueFull(&pgconn.PgError{Code: "54000", Routine: "_bt_check_third_page"}) || isQueueFull(nil) {
		t.Error("a full queue is not recognised")
	}
	driver := h.store.db.driver.(*postgresDriver)
	driver.crowded = true // nothing commits meanwhile
	mustCommit(t, h.store, createMap(t, "a"))
	collect(testContext(t), t, w, "a")
	mustCommit(t, h.store, createMap(t, "b"))
	if driver.crowded {
		t.Error("the queue counts as full for ever")
	}
}

// fullQueue is a database whose first commits with a notification fail, because the queue of notifications is full.
type fullQueue struct {
	*postgresDriver
	times *int
}

func (d fullQueue) begin(after int64) (transaction, *page, error) {
	tx, page, err := d.postgresDriver.begin(after)
	if err != nil || *d.times == 0 {
		return tx, page, err
	}
	*d.times--
	return fullTransaction{tx, d.postgresDriver}, page, nil
}

type fullTransaction struct {
	transaction
	driver *postgresDriver
}

func (t fullTransaction) commit(*batch) error {
	t.rollback()
	return t.driver.noteFull(unusable(&pgconn.PgError{Code: "54000", SeverityUnlocalized: "ERROR", Routine: "PreCommit_Notify"}))
}

// TestCommitsAgainWithoutANotification checks that a batch that meets a full queue of notifications is committed by the next attempt, each
// request of it once and in its order, and that a queue that stays full is told to the clients after two attempts.
func TestCommitsAgainWithoutANotification(t *testing.T) {
	h := newPostgresHarness(t)
	s, peer := h.store, h.openPeer(t)
	start := mustCommit(t, s, createMap(t, "there"))[0].Revision
	w, err := peer.Watch(testContext(t), resources.WatchOptions{Resource: "configmaps", After: start})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	working, times := s.db.driver, 0
	commit := func(failures int, writes ...resources.Write) []error {
		commits := make([][]resources.Write, len(writes))
		for i, w := range writes {
			commits[i] = []resources.Write{w}
		}
		return commitInOneBatch(t, s, func() {
			times = failures
			s.db.driver = fullQueue{working.(*postgresDriver), &times}
		}, commits...)
	}
	errs := commit(1, createMap(t, "a"), createMap(t, "there"), createMap(t, "b"), createMap(t, "b"))
	for i, want := range []error{nil, resources.ErrExists, nil, resources.ErrExists} {
		if !errors.Is(errs[i], want) || errors.Is(errs[i], resources.ErrUnavailable) {
			t.Errorf("request %d: %v, want %v", i, errs[i], want)
		}
	}
	if err := s.failure.get(); err != nil {
		t.Errorf("the database counts as failed: %v", err)
	}
	if errs := commit(2, createMap(t, "c")); !errors.Is(errs[0], resources.ErrUnavailable) || errors.Is(errs[0], resources.ErrRefused) {
		t.Errorf("while the queue stays full: %v", errs[0])
	}
	if errs := commit(0, createMap(t, "d")); errs[0] != nil {
		t.Error(errs[0])
	}
	if events := collect(testContext(t), t, w, "d"); len(events) != 3 || events[0].Revision != start+1 || events[1].Object.Name != "b" || events[2].Revision != start+3 {
		t.Errorf("the other server saw %d events: %v", len(events), events)
	}
	release := holdCommitter(t, s)
	s.db.driver = working
	release()
}
