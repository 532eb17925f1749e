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
