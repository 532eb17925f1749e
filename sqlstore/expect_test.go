package sqlstore

import (
	"errors"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/resources"
)

func expectation(o *resources.Object, by int64) resources.Write {
	return resources.Write{Op: resources.Expect, Key: o.Key, From: o.Revision + by}
}

func updateMap(t testing.TB, o *resources.Object) resources.Write {
	w := createMap(t, o.Name)
	w.Op, w.From = resources.Update, o.Revision
	return w
}

// onBothDatabases runs a test with a store on each database.
func onBothDatabases(t *testing.T, test func(t *testing.T, s *Store)) {
	t.Run("SQLite", func(t *testing.T) { test(t, newSQLiteHarness(t).store) })
	t.Run("Postgres", func(t *testing.T) { test(t, newPostgresHarness(t).store) })
}

// wantUnexpected checks that a commit failed because an object is not at the expected revision but at another one; 0:
// it is gone.
func wantUnexpected(t *testing.T, what string, o *resources.Object, revision int64, err error) {
	t.Helper()
	var unexpected *resources.ExpectationError
	if !errors.As(err, &unexpected) || unexpected.Key != o.Key {
		t.Errorf("%s: %v, want an ExpectationError of %s", what, err, o.Key)
		return
	}
	at := int64(0)
	if unexpected.Current != nil {
		at = unexpected.Current.Revision
	}
	if at != revision {
		t.Errorf("%s: %v, want revision %d", what, err, revision)
	}
}

// An Expect is checked against the earlier commits of the same batch, and does not affect the batch.
func TestExpectInOneBatch(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *Store) {
		rule := mustCommit(t, s, createMap(t, "rule"))[0]
		now := rule.Revision + 2 // after the second commit has changed it
		gone := now + 2
		errs := commitInOneBatch(t, s, nil,
			[]resources.Write{expectation(rule, 0), createMap(t, "a")},
			[]resources.Write{updateMap(t, rule)},
			[]resources.Write{createMap(t, "b"), expectation(rule, 0)},
			[]resources.Write{createMap(t, "c"), expectation(rule, 2)},
			[]resources.Write{{Op: resources.Delete, Key: rule.Key, From: now}},
			[]resources.Write{createMap(t, "d"), expectation(rule, 2)},
			[]resources.Write{createMap(t, "rule")},
			[]resources.Write{createMap(t, "e"), expectation(rule, gone+1-rule.Revision)},
			[]resources.Write{createMap(t, "b")}, // the third commit left nothing
		)
		for _, i := range []int{0, 1, 3, 4, 6, 7, 8} {
			if errs[i] != nil {
				t.Errorf("commit %d: %v", i, errs[i])
			}
		}
		wantUnexpected(t, "the rule of before the batch", rule, now, errs[2])
		wantUnexpected(t, "the rule that is gone", rule, 0, errs[5])
		list, err := s.Snapshot(t.Context(), "configmaps", resources.At{})
		if err != nil {
			t.Fatal(err)
		}
		names := []string{}
		list.Ascend("", "", func(o *resources.Object) bool {
			names = append(names, o.Name)
			return true
		})
		if got := strings.Join(names, " "); got != "a b c e rule" || list.Revision() != rule.Revision+7 {
			t.Errorf("there are %s at revision %d, begun at %d", got, list.Revision(), rule.Revision)
		}
	})
}

// An Expect adds nothing to history.
func TestExpectIsNotInHistory(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *Store) {
		rule := mustCommit(t, s, createMap(t, "rule"))[0]
		added := func(writes ...resources.Write) [2]int64 {
			t.Helper()
			bytes, revision := s.historyBytes.Load(), s.revisions.current.Load()
			mustCommit(t, s, writes...)
			return [2]int64{s.historyBytes.Load() - bytes, s.revisions.current.Load() - revision}
		}
		without, with := added(createMap(t, "a")), added(expectation(rule, 0), createMap(t, "b"), expectation(rule, 0))
		if without != with {
			t.Errorf("bytes and revisions: %d without an Expect, %d with", without, with)
		}
		stored, err := s.db.oldest(t.Context(), 10)
		if err != nil || len(stored) != 3 {
			t.Errorf("the log has %d changes, want 3: %v", len(stored), err)
		}
	})
}

// When a batch fails, no answer says whether its changes would have been as expected.
func TestExpectOfWhatWasNotWritten(t *testing.T) {
	for _, failure := range []error{resources.ErrUnavailable, resources.ErrUnknownOutcome} {
		t.Run(failure.Error(), func(t *testing.T) {
			onBothDatabases(t, func(t *testing.T, s *Store) {
				rule := mustCommit(t, s, createMap(t, "rule"))[0]
				works := s.db.driver
				errs := commitInOneBatch(t, s, func() { s.db.driver = brokenDriver{works, failure} },
					[]resources.Write{updateMap(t, rule)},
					[]resources.Write{createMap(t, "a"), expectation(rule, 0)},
					[]resources.Write{createMap(t, "b"), expectation(rule, 1)},
				)
				for i, want := range []error{failure, resources.ErrUnavailable, failure} {
					var unexpected *resources.ExpectationError
					if err := errs[i]; !errors.Is(err, want) || errors.As(err, &unexpected) {
						t.Errorf("commit %d: %v, want %v", i, err, want)
					}
				}
				mended := make(chan struct{})
				s.queue.putTask(func() {
					s.db.driver = works
					close(mended)
				})
				<-mended
				errs = commitInOneBatch(t, s, nil,
					[]resources.Write{createMap(t, "b"), expectation(rule, 1)},
					[]resources.Write{createMap(t, "a"), expectation(rule, 0)},
				)
				wantUnexpected(t, "a rule that was not written", rule, rule.Revision, errs[0])
				if errs[1] != nil {
					t.Errorf("the rule that is still there: %v", errs[1])
				}
			})
		})
	}
}

// When the database refuses a batch, Expects are checked again with each commit alone.
func TestExpectAfterARefusedBatch(t *testing.T) {
	for name, open := range withARule() {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			rule := mustCommit(t, s, createMap(t, "rule"))[0]
			errs := commitInOneBatch(t, s, nil,
				[]resources.Write{updateMap(t, rule), createMap(t, "forbidden")},
				[]resources.Write{createMap(t, "a"), expectation(rule, 1)},
				[]resources.Write{createMap(t, "b"), expectation(rule, 0)},
				[]resources.Write{createMap(t, "forbidden"), expectation(rule, 0)},
			)
			if !errors.Is(errs[0], resources.ErrRefused) || !errors.Is(errs[3], resources.ErrRefused) {
				t.Errorf("what the database refuses: %v, %v", errs[0], errs[3])
			}
			wantUnexpected(t, "a rule that was refused", rule, rule.Revision, errs[1])
			if errs[2] != nil {
				t.Errorf("the rule that stayed: %v", errs[2])
			}
		})
	}
}

// A server that has not heard of another server's write finds it in the log before it checks an Expect.
func TestExpectOfWhatAnotherServerWrote(t *testing.T) {
	h := newPostgresHarness(t)
	rule := mustCommit(t, h.store, createMap(t, "rule"))[0]
	behind := h.openPeer(t)
	behind.peers.stop() // it gets no notifications
	now := mustCommit(t, h.store, updateMap(t, rule))[0]
	errs := commitInOneBatch(t, behind, nil,
		[]resources.Write{createMap(t, "a"), expectation(rule, 0)},
		[]resources.Write{createMap(t, "b"), expectation(now, 0)},
	)
	wantUnexpected(t, "what this server knew", rule, now.Revision, errs[0])
	if errs[1] != nil {
		t.Errorf("what the other server wrote: %v", errs[1])
	}
	last := mustCommit(t, h.store, resources.Write{Op: resources.Delete, Key: rule.Key, From: now.Revision})[0]
	errs = commitInOneBatch(t, behind, nil,
		[]resources.Write{createMap(t, "a"), expectation(now, 0)},
		[]resources.Write{createMap(t, "a"), expectation(last, 0)},
	)
	for _, err := range errs {
		wantUnexpected(t, "what the other server deleted", rule, 0, err)
	}
}
