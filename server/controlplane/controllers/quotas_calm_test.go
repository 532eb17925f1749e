package controllers

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// A quota whose use has decreased is measured once more later; a deletion meanwhile makes it be measured before that. The clock is that of a
// bubble: by another clock, a measurement may be due before the quota is deleted.
func TestQuotaIsMeasuredSoonAndLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		measured := make(chan struct{}, 10)
		c := newCalmQuotas(func(resources.Key) { measured <- struct{}{} })
		used := func(n string) *resources.Object {
			return &resources.Object{Key: resources.Key{Resource: quotasResource, Name: "q"}, Data: []byte(`{"status":{"used":{"pods":"` + n + `"}}}`)}
		}
		began := time.Now()
		next := func(what string, after time.Duration) {
			t.Helper()
			select {
			case <-measured:
				if took := time.Since(began); took != after {
					t.Errorf("measured after %v, not %v", took, after)
				}
			case <-time.After(time.Minute):
				t.Fatal(what)
			}
		}
		c.isNow(&resources.Event{Op: resources.Update, Prev: used("2"), Object: used("1")})
		for range 3 {
			c.soon(used("1").Key)
		}
		next("what went does not count", quotaCalm)
		next("what was under way does not count", quotaUnrest)
		c.isNow(&resources.Event{Op: resources.Update, Prev: used("1"), Object: used("2")})
		c.soon(used("2").Key)
		next("what went later does not count", quotaUnrest+quotaCalm)
		c.isNow(&resources.Event{Op: resources.Update, Prev: &resources.Object{Key: used("2").Key, Data: []byte(`{}`)}, Object: used("0")})
		next("what was let in before it was counted does not count", 2*quotaUnrest+quotaCalm)
		c.isNow(&resources.Event{Op: resources.Update, Prev: used("2"), Object: used("1")})
		c.soon(used("1").Key)
		c.gone(used("1").Key)
		time.Sleep(time.Minute)
		if len(measured)+len(c.waiting)+len(c.changed) != 0 {
			t.Errorf("%d times more, %v are waiting", len(measured), c.waiting)
		}
	})
}
