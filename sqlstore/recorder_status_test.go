package sqlstore

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// Writes that change the status alone are bounded by themselves: they displace no other write, whether their paths are
// encrypted or not.
func TestObjectHistoryOfStatusDisplacesNothing(t *testing.T) {
	for name, providers := range map[string]string{"plain": identityProvider, "encrypted": "aesgcm: {keys: [" + keyOf("a") + "]}"} {
		t.Run(name, func(t *testing.T) {
			withHistory(t, func(t *testing.T, open func(ObjectHistory) *Store, _ interface{ Step(time.Duration) }) {
				s := open(ObjectHistory{Age: time.Hour, Revisions: 5})
				s.sealer.transformers = transformers(t, "widgets", providers)
				controller := sentBy(t, "controller", "", "update", `"status.x","`)
				write := func(ctx context.Context, o *resources.Object, member string) *resources.Object {
					t.Helper()
					w := object(t, "widgets", "shop", "a", "u1", member)
					if o != nil {
						w = update(w, o)
					}
					written, err := s.Commit(ctx, w)
					if err != nil {
						t.Fatal(err)
					}
					return written[0]
				}
				o := write(t.Context(), nil, `"spec":{"n":1}`)
				o = write(t.Context(), o, `"spec":{"n":2}`)
				o = write(controller, o, `"spec":{"n":2},"status":{}`)
				for i := range 30 {
					o = write(controller, o, fmt.Sprintf(`"spec":{"n":2},"status":{"n":%d,"m":%[1]d}`, i))
				}
				status := "update widgets/shop/a u1 controller [status.n status.m]"
				first, second := "create widgets/shop/a u1  []", "update widgets/shop/a u1  [spec.n]"
				wantHistoryOf(t, s, resources.RevisionQuery{}, first, second, status, status, status, status, status)
				found, _, err := s.ObjectHistory(t.Context(), resources.RevisionQuery{Objects: true})
				if err != nil || len(found) != 7 || !strings.Contains(string(found[5].After), `"spec":{"n":2}`) {
					t.Errorf("the write of the specification cannot be restored: %+v, %v", found, err)
				}
				for i := range 10 {
					o = write(t.Context(), o, fmt.Sprintf(`"spec":{"n":%d},"status":{"n":%[1]d}`, 100+i))
				}
				both := "update widgets/shop/a u1  [spec.n status.n]"
				wantHistoryOf(t, s, resources.RevisionQuery{}, status, status, status, status, status, both, both, both, both, both)
				s.wantCounted(t)
			})
		})
	}
}

// A write of more fields than are recorded is one of the status if its author wrote that.
func TestObjectHistoryOfLargeStatusDisplacesNothing(t *testing.T) {
	withHistory(t, func(t *testing.T, open func(ObjectHistory) *Store, _ interface{ Step(time.Duration) }) {
		s := open(ObjectHistory{Age: time.Hour, Revisions: 5})
		o := mustCommit(t, s, object(t, "widgets", "shop", "a", "u1", `"spec":{"n":1}`))[0]
		controller := sentBy(t, "controller", "", "update", `"status.x","`)
		for i := range 10 {
			var members []string
			for m := range 100 {
				members = append(members, fmt.Sprintf(`"m%d":%d`, m, i))
			}
			written, err := s.Commit(controller, update(object(t, "widgets", "shop", "a", "u1", `"spec":{"n":1},"status":{`+strings.Join(members, ",")+`}`), o))
			if err != nil {
				t.Fatal(err)
			}
			o = written[0]
		}
		s.recordNow(t)
		if found, _, err := s.ObjectHistory(t.Context(), resources.RevisionQuery{}); err != nil || len(found) != 6 {
			t.Errorf("%d writes, %v: the five last of the status and the create are to be kept", len(found), err)
		}
	})
}
