package controllers

import (
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rowlock/rowlock/resources"
)

const (
	// quotaCalm is how long a quota has to be unchanged before it is measured. Admission adds the use of a request to the quota first;
	// the object can be counted only after the request has been carried out, a few milliseconds later.
	quotaCalm = 100 * time.Millisecond
	// quotaUnrest bounds that wait. It is also the delay after which a quota is measured again when its use has decreased or covers a resource for
	// the first time: the use of a request that was still under way may have been lost.
	quotaUnrest = 2 * time.Second
)

// calmQuotas delays the measurement of quotas until they have not changed for a while. If a quota were measured between the admission of a
// request and its execution, it would lose the use of that request: more would be admitted than it allows, and its status would be wrong until
// an object is deleted.
type calmQuotas struct {
	// measure queues a quota for measurement.
	measure func(resources.Key)

	mu sync.Mutex
	// changed holds the last change of each quota; waiting holds those that are due to be measured.
	changed map[resources.Key]quotaChange
	waiting map[quotaWait]*waitingQuota
	// others tells that another controller measures quotas, too: it gave a new quota its status.
	others bool
}

// quotaChange describes a quota as of its last change.
type quotaChange struct {
	at       time.Time
	revision int64
	// isNew tells that the quota has no limits in its status yet.
	isNew bool
	// refusedFrom and refusedLast are when the first and the last of its measurements in a row were not written.
	refusedFrom, refusedLast time.Time
}

// quotaWait identifies a wait: a soon one, because the use may have decreased, or a later one, because the use of requests may be missing. A quota
// can have both.
type quotaWait struct {
	key   resources.Key
	later bool
}

type waitingQuota struct {
	timer *time.Timer
	// latest is when the quota is measured even if it still changes.
	latest time.Time
}

func newCalmQuotas(measure func(resources.Key)) *calmQuotas {
	return &calmQuotas{measure: measure, changed: map[resources.Key]quotaChange{}, waiting: map[quotaWait]*waitingQuota{}}
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

// gone forgets a deleted quota.
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

// isNow records a change of a quota.
func (c *calmQuotas) isNow(e *resources.Event) {
	mayLack := e.Op == resources.Update && (e.Prev == nil || mayLack(e.Prev, e.Object))
	isNew := !gjson.GetBytes(e.Object.Data, "status.hard").Exists()
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.changed[e.Object.Key]
	c.others = c.others || before.isNew && !isNew && time.Since(before.at) < quotaCalm // no status is written here so soon
	c.changed[e.Object.Key] = quotaChange{at: time.Now(), revision: e.Object.Revision, isNew: isNew, refusedFrom: before.refusedFrom, refusedLast: before.refusedLast}
	if mayLack {
		c.wait(quotaWait{e.Object.Key, true}, quotaUnrest)
	}
}

// soon schedules the measurement of a quota as soon as it is calm.
func (c *calmQuotas) soon(key resources.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if of := (quotaWait{key, false}); c.waiting[of] == nil {
		c.wait(of, 0)
	}
}

// wait schedules the measurement of a quota as soon as it is calm, at least a given time from now.
func (c *calmQuotas) wait(of quotaWait, least time.Duration) {
	if before := c.waiting[of]; before != nil {
		before.timer.Stop()
	}
	w := &waitingQuota{latest: time.Now().Add(least + quotaUnrest)}
	w.timer = time.AfterFunc(max(least, quotaCalm-time.Since(c.changed[of.key].at)), func() { c.look(of, w) })
	c.waiting[of] = w
}

// look measures a quota if it is calm, and otherwise waits until it is.
func (c *calmQuotas) look(of quotaWait, w *waitingQuota) {
	c.mu.Lock()
	changed := c.changed[of.key]
	left := quotaCalm - time.Since(changed.at)
	ready := left <= 0 || time.Now().After(w.latest)
	switch {
	case c.waiting[of] != w: // it was deleted, or waits anew
		ready = false
	case ready:
		delete(c.waiting, of)
		if left > 0 {
			changed.refusedFrom, changed.refusedLast = time.Now().Add(-quotaUnrest), time.Now()
			c.changed[of.key] = changed
		}
	default:
		w.timer.Reset(left)
	}
	c.mu.Unlock()
	if ready {
		c.measure(of.key)
	}
}

// mayLack tells whether the use in a quota's status decreased, or covers a resource for the first time: the use of requests admitted until then may
// not have been added.
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
