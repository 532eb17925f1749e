package controllers

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

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

// A quota is never written between the admission of a request and its execution: not when it is new, not after a conflict, and not when all quotas
// are measured. Its first status is left to another controller that was faster before, until that one fails to write it.
func TestQuotaIsWrittenWhenCalm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, measured, revision := time.Now(), atomic.Int64{}, int64(0)
		c := newCalmQuotas(func(resources.Key) { measured.Add(1) })
		key := resources.Key{Resource: quotasResource, Namespace: "ns", Name: "q"}
		server := &quotaServer{}
		w := calmWriter{server, c}
		const isNew, hasStatus = `{"spec":{"hard":{"pods":"1"}}}`, `{"status":{"hard":{"pods":"1"},"used":{"pods":"0"}}}`
		changes := func(to string) {
			revision++
			c.isNow(&resources.Event{Op: resources.Update, Object: &resources.Object{Key: key, Revision: revision, Data: []byte(to)},
				Prev: &resources.Object{Key: key, Data: []byte(to)}})
		}
		write := func() error {
			_, err := w.UpdateStatus(t.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "q",
				ResourceVersion: strconv.FormatInt(revision, 10)}}, metav1.UpdateOptions{})
			return err
		}
		refused := func(what string, after time.Duration) {
			t.Helper()
			sent, before := server.sent, measured.Load()
			if err := write(); err != nil || server.sent != sent {
				t.Errorf("%s: it was written, %v", what, err)
			}
			time.Sleep(after - time.Nanosecond)
			synctest.Wait()
			if measured.Load() != before {
				t.Errorf("%s: measured before %v had passed", what, after)
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if measured.Load() != before+1 {
				t.Errorf("%s: measured %d times after %v", what, measured.Load()-before, after)
			}
		}
		written := func(what string) {
			t.Helper()
			if sent := server.sent; write() != nil || server.sent != sent+1 {
				t.Errorf("%s: it was not written", what)
			}
		}

		changes(isNew)
		refused("new", quotaCalm)
		written("new and calm")
		changes(hasStatus)
		refused("just changed", quotaCalm)
		written("calm")
		revision++
		refused("a change that has not been shown", quotaCalm)

		changes(isNew)
		time.Sleep(quotaCalm / 2)
		changes(hasStatus) // by another
		changes(isNew)
		refused("new, and left to the other", quotaOthers)
		written("new, and not measured by the other")
		changes(isNew)
		refused("new, and the other is gone", quotaCalm)

		server.answer = apierrors.NewConflict(corev1.Resource("resourcequotas"), "q", nil)
		written("a conflict, not repeated at once")
		changes(hasStatus)
		refused("never calm", quotaCalm)
		changes(hasStatus)
		_ = write()
		for last := measured.Load(); measured.Load() == last && time.Since(began) < time.Hour; synctest.Wait() {
			time.Sleep(quotaCalm / 2)
			changes(hasStatus)
		}
		if err := write(); !apierrors.IsConflict(err) {
			t.Errorf("a conflict of a quota that is never calm is %v, and so not repeated at once", err)
		}
		server.answer = nil
		written("never calm")
		time.Sleep(time.Minute)

		changes(hasStatus)
		for overtaken := time.Now(); time.Since(overtaken) < quotaUnrest; {
			refused("calm, and changed while it was measured", quotaCalm)
			changes(hasStatus)
		}
		written("changed whenever it is measured")
		refused("and written", quotaCalm)
	})
}

// quotaServer counts the writes of a quota's status, and answers them.
type quotaServer struct {
	corev1client.ResourceQuotaInterface // nil

	answer error
	sent   int
}

func (s *quotaServer) UpdateStatus(_ context.Context, q *corev1.ResourceQuota, _ metav1.UpdateOptions) (*corev1.ResourceQuota, error) {
	s.sent++
	return q, s.answer
}
