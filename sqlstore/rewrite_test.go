package sqlstore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"k8s.io/apiserver/pkg/server/options/encryptionconfig"

	"github.com/rowlock/rowlock/resources"
)

// mustRewrite rewrites everything, and returns the result for each table.
func mustRewrite(t *testing.T, s *Store) map[string]Rewritten {
	t.Helper()
	done := map[string]Rewritten{}
	if err := s.Rewrite(t.Context(), func(r Rewritten) { done[r.Table] = r }); err != nil {
		t.Fatal(err)
	}
	return done
}

// Rows that are not encrypted, or not with the first key, are rewritten, also in history, at the same revisions; after
// that the file no longer contains the old bytes.
func TestRewrite(t *testing.T) {
	gcm, cbc := "aesgcm: {keys: ["+keyOf("a")+"]}", "aescbc: {keys: ["+keyOf("b")+"]}"
	onBothSealed(t, nil, func(t *testing.T, on *sealedOn) {
		const rows = 200 // more than three steps
		marker := "to-be-rewritten"
		var made []*resources.Object
		for n := 0; n < rows; n += 5 {
			var writes []resources.Write
			for i := range 5 {
				writes = append(writes, secret(t, fmt.Sprintf("m%03d", n+i), marker))
			}
			made = append(made, mustCommit(t, on.Store, writes...)...)
		}
		last := mustCommit(t, on.Store, updateSecret(t, made[0], marker), resources.Write{Op: resources.Delete, Key: made[1].Key, From: made[1].Revision})
		check := func(step, provider string, clear bool, with ...string) {
			s := on.Reopen(transformers(t, "configmaps", with...))
			if !s.Stale(t.Context(), last[0]) {
				t.Errorf("%s: what was written before is not stale", step)
			}
			for again, want := range []int64{rows - 1, 0} {
				done := mustRewrite(t, s)
				if got := done["objects"]; got != (Rewritten{Table: "objects", Rows: rows - 1, Stale: want}) {
					t.Errorf("%s, time %d: %+v", step, again, got)
				}
				switch {
				case again == 0 && s.Shared():
					want = rows + 2
				case again == 0:
					want = 3 // the other rows are objects, too
				}
				if got := done["changes"]; got != (Rewritten{Table: "changes", Rows: rows + 2, Stale: want}) {
					t.Errorf("%s, time %d: %+v", step, again, got)
				}
			}
			raw := rawRows(t, s)
			if n := strings.Count(raw, provider); n != 2*rows+1 || strings.Contains(raw, marker) != clear {
				t.Errorf("%s: %d rows by %s", step, n, provider)
			}
			if found := on.Files != "" && filesWith(t, on.Files, marker) != nil; found != (clear && on.Files != "") {
				t.Errorf("%s: it is in the files: %v", step, found)
			}
			for range 2 {
				wantSecret(t, s, last[0].Key, last[0].Revision, marker)
				wantSecret(t, s, made[rows-1].Key, made[rows-1].Revision, marker)
				answer, err := s.db.history(t.Context(), historyQuery{resource: "configmaps", after: made[rows-1].Revision, upTo: last[1].Revision, limit: 9})
				if err != nil || len(answer.events) != 2 || answer.events[0].Prev.Fields["data.a"] != marker {
					t.Errorf("%s: history: %+v, %v", step, answer, err)
				}
				s = on.Reopen(s.options.Transformers)
			}
		}
		check("encrypt", sealedPrefix+"aesgcm:v1:a:", false, gcm, identityProvider)
		check("rotate", sealedPrefix+"aescbc:v1:b:", false, cbc, gcm)
		check("decrypt", `"a":"`+marker, true, identityProvider, cbc)
	})
}

// Servers that follow the log see whole transactions, also while it is rewritten, and concurrent writes are not lost.
func TestRewriteBesideWriters(t *testing.T) {
	h := newPostgresHarness(t)
	open := func(with ...string) *Store {
		o := h.options()
		o.Transformers = transformers(t, "configmaps", with...)
		s := mustOpen(t, o)
		t.Cleanup(func() { s.Close() })
		return s
	}
	gcm := "aesgcm: {keys: [" + keyOf("a") + "]}"
	first, second := open(identityProvider, gcm), open(gcm, identityProvider)
	const pairs = 40
	a, b := make([]*resources.Object, pairs), make([]*resources.Object, pairs)
	for i := range pairs {
		two := mustCommit(t, first, secret(t, fmt.Sprintf("a%d", i), "0"), secret(t, fmt.Sprintf("b%d", i), "0"))
		a[i], b[i] = two[0], two[1]
	}
	var work sync.WaitGroup
	work.Go(func() {
		for i := range pairs {
			two, err := first.Commit(t.Context(), updateSecret(t, a[i], fmt.Sprint(i)), updateSecret(t, b[i], fmt.Sprint(i)))
			if err != nil {
				t.Error(err)
				return
			}
			a[i], b[i] = two[0], two[1]
		}
	})
	for range 3 {
		if err := second.Rewrite(t.Context(), func(Rewritten) {}); err != nil {
			t.Error(err)
		}
	}
	work.Wait()
	for i := range pairs {
		for _, s := range []*Store{first, second} {
			wantSecret(t, s, a[i].Key, a[i].Revision, fmt.Sprint(i))
			wantSecret(t, s, b[i].Key, b[i].Revision, fmt.Sprint(i))
		}
	}
	if done := mustRewrite(t, second); done["objects"].Unreadable != 0 || strings.Contains(rawRows(t, second), `"a":"`) {
		t.Errorf("after all: %+v", done)
	}
	// The two changes of each commit still belong to one transaction.
	if err := second.db.each(t.Context(), func(scan func(...any) error) error {
		var apart int
		if err := scan(&apart); err != nil || apart > 0 {
			t.Errorf("%d commits are of several transactions, %v", apart, err)
		}
		return nil
	}, `SELECT count(*) FROM changes c JOIN changes d ON d.revision = c.revision + 1 AND d.at = c.at
		WHERE c.name LIKE 'a%' AND d.name = 'b' || substr(c.name, 2) AND c.op = d.op AND c.xmin <> d.xmin`); err != nil {
		t.Fatal(err)
	}
}

// An interrupted rewrite can be continued; rows that cannot be decrypted are reported and left.
func TestRewriteInterrupted(t *testing.T) {
	gcm := "aesgcm: {keys: [" + keyOf("a") + "]}"
	onBothSealed(t, nil, func(t *testing.T, on *sealedOn) {
		var writes []resources.Write
		for i := range 2*rewriteStep + 1 {
			writes = append(writes, secret(t, fmt.Sprintf("m%03d", i), "clear"))
		}
		mustCommit(t, on.Store, writes...)
		s := on.Reopen(transformers(t, "configmaps", gcm, identityProvider))
		ctx, cancel := context.WithCancel(t.Context())
		err := s.Rewrite(ctx, func(r Rewritten) { cancel() })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("interrupted: %v", err)
		}
		inLog := int64(2*rewriteStep + 1)
		if !s.Shared() {
			inLog = 0 // the rows of the log are the objects
		}
		if done := mustRewrite(t, s); done["objects"].Stale != rewriteStep+1 || done["changes"].Stale != inLog {
			t.Errorf("gone on: %+v", done)
		}
		other := on.Reopen(transformers(t, "configmaps", "aesgcm: {keys: ["+keyOf("z")+"]}"))
		done := mustRewrite(t, other)
		if got := done["objects"]; got.Unreadable != 2*rewriteStep+1 || got.Stale != 0 || got.Unread == nil {
			t.Errorf("by another key: %+v", got)
		}
		s = on.Reopen(s.options.Transformers)
		wantSecret(t, s, writes[7].Key, 9, "clear")
	})
}

// rewriterVariable makes the test binary rewrite a database, and print each step; its value is the URL, the schema and
// a file with an EncryptionConfiguration, in lines.
const rewriterVariable = "ROWLOCK_TEST_REWRITER"

func rewriteUntilKilled(what string) error {
	parts := strings.Split(what, "\n")
	c, err := encryptionconfig.LoadEncryptionConfig(context.Background(), parts[2], false, "test")
	if err != nil {
		return err
	}
	s, err := Open(context.Background(), Options{URL: parts[0], Schema: parts[1], Logger: slog.New(slog.DiscardHandler),
		Transformers: encryptionconfig.StaticTransformers(c.Transformers)})
	if err != nil {
		return err
	}
	return s.Rewrite(context.Background(), func(Rewritten) { fmt.Println("step") })
}

// A rewrite that is killed in the middle leaves all rows readable, and the next one does the rest.
func TestRewriteKilled(t *testing.T) {
	gcm := "aesgcm: {keys: [" + keyOf("a") + "]}"
	onBothSealed(t, nil, func(t *testing.T, on *sealedOn) {
		marker, rows := "to-be-killed", 4*rewriteStep
		var made []*resources.Object
		for n := range rows {
			made = append(made, mustCommit(t, on.Store, secret(t, fmt.Sprintf("m%03d", n), marker))...)
		}
		o := on.Store.options
		if err := on.Store.Close(); err != nil {
			t.Fatal(err)
		}
		killAfter(t, 2, rewriterVariable+"="+strings.Join([]string{o.URL, o.Schema, encryptionFile(t, "configmaps", gcm, identityProvider)}, "\n"))
		s := on.Reopen(transformers(t, "configmaps", gcm, identityProvider))
		for _, o := range made {
			wantSecret(t, s, o.Key, o.Revision, marker)
		}
		done := mustRewrite(t, s)
		if n := done["objects"].Stale; n > int64(rows-2*rewriteStep) || done["objects"].Rows != int64(rows) {
			t.Errorf("after two steps, %d of %d objects were left", n, rows)
		}
		if strings.Contains(rawRows(t, s), marker) || on.Files != "" && filesWith(t, on.Files, marker) != nil {
			t.Error("something is in clear")
		}
		for _, o := range made {
			wantSecret(t, s, o.Key, o.Revision, marker)
		}
	})
}

// killAfter runs the test binary with a variable, and kills it after so many lines of output.
func killAfter(t *testing.T, lines int, variable string) {
	t.Helper()
	cmd := exec.CommandContext(testContext(t), os.Args[0])
	cmd.Env = append(os.Environ(), variable)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(out)
	for range lines {
		if !said.Scan() {
			t.Fatal("it ended")
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
}
