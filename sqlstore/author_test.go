package sqlstore

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rowlock/rowlock/resources"
)

// sentBy is the context of a request.
func sentBy(t *testing.T, name, as, verb, agent string) context.Context {
	t.Helper()
	who := &user.DefaultInfo{Name: name}
	ctx := resources.WithRequester(t.Context(), who, agent)
	if as != "" {
		who = &user.DefaultInfo{Name: as}
	}
	return genericapirequest.WithRequestInfo(genericapirequest.WithUser(ctx, who), &genericapirequest.RequestInfo{Verb: verb, Subresource: "status"})
}

// The row of a change has its author, whichever request of a batch wrote it.
func TestAuthors(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *Store) {
		first, err := s.Commit(sentBy(t, "ann", "", "create", "kubectl/v1.37"), createMap(t, "a"), createMap(t, "b"))
		if err != nil {
			t.Fatal(err)
		}
		odd := "\xff\x00'\"é-" + strings.Repeat("é", agentMax)
		if _, err := s.Commit(sentBy(t, "ann", "bob", "patch", odd), updateMap(t, first[0])); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Commit(t.Context(), resources.Write{Op: resources.Delete, Key: first[1].Key, From: first[1].Revision}); err != nil {
			t.Fatal(err)
		}
		rows := resources.NewRows(s)
		row, err := rows.Create(sentBy(t, "ann", "", "post", "x"), resources.Key{Resource: "tests.rowlock.internal", Name: "r"}, "Test", 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := rows.Delete(t.Context(), row); err != nil {
			t.Fatal(err)
		}
		kubectl := resources.Author{User: "ann", Verb: "create", Subresource: "status", Agent: "kubectl/v1.37"}
		cut := "\ufffd\x00'\"é-" + strings.Repeat("é", agentMax)
		bob := resources.Author{User: "ann", As: "bob", Verb: "patch", Subresource: "status", Agent: cut[:agentMax+1] + truncated}
		r := first[0].Revision
		want := []Change{
			{Key: first[0].Key, Op: resources.Create, Revision: r, Author: kubectl},
			{Key: first[1].Key, Op: resources.Create, Revision: r + 1, Author: kubectl},
			{Key: first[0].Key, Op: resources.Update, Revision: r + 2, PrevRevision: r, Author: bob},
			{Key: first[1].Key, Op: resources.Delete, Revision: r + 3, PrevRevision: r + 1},
		}
		wantChanges(t, s, ChangesOptions{Resource: "configmaps"}, want...)
		wantChanges(t, s, ChangesOptions{Resource: "configmaps", Limit: 2}, want[:2]...)
		wantChanges(t, s, ChangesOptions{Resource: "configmaps", Name: "a", After: r}, want[2])
		wantChanges(t, s, ChangesOptions{Resource: row.Resource},
			Change{Key: row.Key, Op: resources.Create, Revision: row.Revision, Author: resources.Author{User: "ann", Verb: "create", Agent: "x"}},
			Change{Key: row.Key, Op: resources.Delete, Revision: row.Revision + 1, PrevRevision: row.Revision,
				Author: resources.Author{User: user.APIServerUser, Verb: "delete"}})
	})
}

// wantChanges compares the changes in history, except for their times.
func wantChanges(t *testing.T, s *Store, o ChangesOptions, want ...Change) {
	t.Helper()
	got, err := s.Changes(t.Context(), o)
	if err != nil {
		t.Error(err)
	}
	for i := range got {
		if got[i].At.IsZero() {
			t.Errorf("no time: %+v", got[i])
		}
		got[i].At = want[0].At
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%+v (-want +got):\n%s", o, diff)
	}
}

// The janitor's deletions have an author, too. Changes that left history are not returned, though the table may keep
// them for the change after them.
func TestAuthorOfExpiry(t *testing.T) {
	h := newSQLiteHarness(t)
	w := createMap(t, "a")
	w.TTL = 1
	made := mustCommit(t, h.store, w)[0]
	h.clock.Step(10 * expirySlack)
	if _, err := h.store.janitor.expire(); err != nil {
		t.Fatal(err)
	}
	deletion := Change{Key: made.Key, Op: resources.Delete, Revision: made.Revision + 1, PrevRevision: made.Revision, Author: resources.Expiry}
	wantChanges(t, h.store, ChangesOptions{Resource: "configmaps", After: made.Revision}, deletion)
	h.onWriter(t, func() error {
		_, err := h.store.db.prune(made.Revision)
		return err
	})
	wantChanges(t, h.store, ChangesOptions{Resource: "configmaps"}, deletion)
}

// An author that cannot be parsed is an error.
func TestAuthorThatIsNone(t *testing.T) {
	if a, err := decodeAuthor(sql.NullString{String: "ann", Valid: true}); err == nil {
		t.Errorf("%+v", a)
	}
}

func BenchmarkEncodeAuthor(b *testing.B) {
	b.ReportAllocs()
	a := resources.Author{User: "system:serviceaccount:kube-system:deployment-controller", Verb: "update", Subresource: "status",
		Agent: "kube-controller-manager/v1.37.1 (linux/amd64) kubernetes/1234567/system:serviceaccount:kube-system:deployment-controller"}
	n := 0
	for b.Loop() {
		n = len(encodeAuthor(a).String)
	}
	b.ReportMetric(float64(n), "B/row")
}
