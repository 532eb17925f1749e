package sqlstore

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rowlock/rowlock/resources"
)

// A step that ends for the bytes of its changes knows that there are more, whatever the bytes are of: of authors, or of
// objects that are not kept.
func TestObjectHistoryOfLargeChanges(t *testing.T) {
	withHistory(t, func(t *testing.T, open func(ObjectHistory) *Store, _ interface{ Step(time.Duration) }) {
		s := open(ObjectHistory{Age: time.Hour})
		ctx := genericapirequest.WithUser(t.Context(), &user.DefaultInfo{Name: strings.Repeat("u", 300)})
		size := `"size":"` + strings.Repeat("s", 10<<10) + `"`
		const each = 120
		for _, resource := range []string{"events", "widgets"} {
			for i := range each {
				if _, err := s.Commit(ctx, object(t, resource, "shop", fmt.Sprint("o", i), "u", size)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := len(historyOf(t, s, resources.RevisionQuery{})); got != each {
			t.Errorf("the history has %d of %d writes", got, each)
		}
	})
}

// A query without objects does not read them, and otherwise tells the same as one with objects: of writes that are
// encrypted or not, and of those that cannot be decrypted or are too large.
func TestObjectHistoryWithoutObjects(t *testing.T) {
	withHistory(t, func(t *testing.T, open func(ObjectHistory) *Store, _ interface{ Step(time.Duration) }) {
		s := open(ObjectHistory{Age: time.Hour, Size: 1 << 20})
		text := func(bytes int) string {
			random := rand.New(rand.NewPCG(1, 2)) // so that compression does not make it small
			var b strings.Builder
			for b.Len() < bytes {
				fmt.Fprintf(&b, "%x", random.Uint64())
			}
			return `"size":"` + b.String() + `"`
		}
		mustCommit(t, s, object(t, "widgets", "shop", "large", "u1", text(1<<20)))
		for i := range 3 {
			mustCommit(t, s, object(t, "widgets", "shop", fmt.Sprint("plain-", i), "u2", text(50<<10)))
		}
		historyOf(t, s, resources.RevisionQuery{})
		s.sealer.transformers = transformers(t, "widgets", "aesgcm: {keys: ["+keyOf("a")+"]}", identityProvider)
		mustCommit(t, s, object(t, "widgets", "shop", "sealed", "u3", text(10<<10)))
		historyOf(t, s, resources.RevisionQuery{})
		for _, on := range []struct {
			key              string
			more             []string
			plain, encrypted bool // are readable
		}{{"b", []string{identityProvider}, true, false}, {"a", nil, false, true}, {"a", []string{identityProvider}, true, true}} {
			s.sealer.transformers = transformers(t, "widgets", append([]string{"aesgcm: {keys: [" + keyOf(on.key) + "]}"}, on.more...)...)
			full, _, err := s.ObjectHistory(t.Context(), resources.RevisionQuery{Objects: true})
			if err != nil || len(full) != 5 || full[0].Unreadable == on.encrypted || full[1].Unreadable == on.plain || !full[4].Unreadable {
				t.Fatalf("%+v: %d writes, %v", on, len(full), err)
			}
			for i := range full {
				full[i].Before, full[i].After = nil, nil
			}
			alone, _, err := s.ObjectHistory(t.Context(), resources.RevisionQuery{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(full, alone); diff != "" {
				t.Error(diff)
			}
		}
		read := 0
		statement, args := selectRevisions(resources.RevisionQuery{})
		if err := s.db.each(t.Context(), func(scan func(...any) error) error {
			var row revisionRow
			err := row.scan(scan)
			read += len(row.data)
			return err
		}, statement, args...); err != nil {
			t.Fatal(err)
		}
		if read > 20<<10 {
			t.Errorf("%d bytes were read, only those of the encrypted write are needed", read)
		}
	})
}
