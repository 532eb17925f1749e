package controllers

import (
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rowlock/rowlock/resources"
)

const (
	// quotaCalm is for how long a quota has to be as it is before it is measured: what a request uses is added to the quota first, and is
	// there to be counted only when the request has been carried out, which takes a few milliseconds.
	quotaCalm = 100 * time.Millisecond
	// quotaUnrest is how long that is waited for at most, and after how long a quota is measured again whose use has become less, or that says for the first
	// time how much of something is used: a request that was slower than that may have been lost.
	quotaUnrest = 2 * time.Second
)

// calmQuotas has quotas measured when they have been as they are for a while. Measured in the moment in which a request was let through and is
// not carried out yet, a quota would lose what the request uses: more than it allows would be let in, and its status would be wrong until
// something goes.
type calmQuotas struct {
	// measure has a quota measured.
	measure func(resources.Key)

	mu sync.Mutex
	// changed is when quotas became what they are, and waiting has those that are to be measured.
	changed map[resources.Key]time.Time
	waiting map[quotaWait]*waitingQuota
}

// quotaWait is what is waited for: soon, because something went, or later, because what requests use may be missing. One keeps nobody from the other.
type quotaWait struct {
	key   resources.Key
	later bool
}

type waitingQuota struct {
	timer *time.Timer
	// latest is when it is measured, calm or not.
	latest time.Time
}

func newCalmQuotas(measure func(resources.Key)) *calmQuotas {
	return &calmQuotas{measure: measure, changed: map[resources.Key]time.Time{}, waiting: map[quotaWait]*waitingQuota{}}
}

func (c *calmQuotas) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.waiting {
		w.timer.Stop()
	}
	clear(c.changed)
	clear(c.waiting)
}

// gone forgets a quota.
func (c *calmQuotas) gone(key resources.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range []quotaWait{{key, false}, {key, true}} {
		if w := c.waiting[of]; w != nil {
			w.timer.Stop()
			delete(c.waiting, of)
		}
	}
	delete(c.changed, key)
}

// isNow notes that a quota has changed.
func (c *calmQuotas) isNow(e *resources.Event) {
	mayLack := e.Op == resources.Update && (e.Prev == nil || mayLack(e.Prev, e.Object))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed[e.Object.Key] = time.Now()
	if mayLack {
		c.wait(quotaWait{e.Object.Key, true}, quotaUnrest)
	}
}

// soon has a quota measured as soon as it is calm.
func (c *calmQuotas) soon(key resources.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if of := (quotaWait{key, false}); c.waiting[of] == nil {
		c.wait(of, 0)
	}
}

// wait has a quota measured as soon as it is calm, after a time from now.
func (c *calmQuotas) wait(of quotaWait, least time.Duration) {
	if before := c.waiting[of]; before != nil {
		before.timer.Stop()
	}
	w := &waitingQuota{latest: time.Now().Add(least + quotaUnrest)}
	w.timer = time.AfterFunc(max(least, quotaCalm-time.Since(c.changed[of.key])), func() { c.look(of, w) })
	c.waiting[of] = w
}

// look measures a quota that is calm, or waits for that.
func (c *calmQuotas) look(of quotaWait, w *waitingQuota) {
	c.mu.Lock()
	left := quotaCalm - time.Since(c.changed[of.key])
	ready := left <= 0 || time.Now().After(w.latest)
	switch {
	case c.waiting[of] != w: // it is gone, or waits anew
		ready = false
	case ready:
		delete(c.waiting, of)
	default:
		w.timer.Reset(left)
	}
	c.mu.Unlock()
	if ready {
		c.measure(of.key)
	}
}

// mayLack tells whether a quota says that less is used of something than it did before, or something that it has not said before: what was let in till
// then nobody has added.
func mayLack(before, now *resources.Object) (less bool) {
	was := gjson.GetBytes(before.Data, "status.used").Map()
	used := gjson.GetBytes(now.Data, "status.used").Map()
	for name, v := range was {
		a, err := resource.ParseQuantity(v.Str)
		b, wrong := resource.ParseQuantity(used[name].Str)
		less = less || err != nil || wrong != nil || b.Cmp(a) < 0
		delete(used, name)
	}
	return less || len(used) > 0
}
