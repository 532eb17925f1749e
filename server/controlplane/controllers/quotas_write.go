package controllers

import (
	"context"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/rowlock/rowlock/resources"
)

// quotaOthers is how long a new quota is left to another controller that measures quotas, such as that of a kube-controller-manager beside this
// server, once there is known to be one. If both write its first status, the one that is refused measures the quota again at once, by then perhaps
// without the use of a request that is under way.
const quotaOthers = time.Second

// calmClient is upstream's client of the controller for quotas. It writes a measurement only if calmQuotas lets it: upstream's code also measures
// all quotas every few minutes, and one again after an error, without regard to requests that are under way.
type calmClient struct {
	corev1client.ResourceQuotasGetter

	calm *calmQuotas
}

// ResourceQuotas implements corev1client.ResourceQuotasGetter.
func (c calmClient) ResourceQuotas(namespace string) corev1client.ResourceQuotaInterface {
	return calmWriter{c.ResourceQuotasGetter.ResourceQuotas(namespace), c.calm}
}

type calmWriter struct {
	corev1client.ResourceQuotaInterface

	calm *calmQuotas
}

// UpdateStatus implements corev1client.ResourceQuotaInterface. If the quota will be measured again instead, it returns what it was given.
func (w calmWriter) UpdateStatus(ctx context.Context, q *corev1.ResourceQuota, o metav1.UpdateOptions) (*corev1.ResourceQuota, error) {
	key := resources.Key{Resource: quotasResource, Namespace: q.Namespace, Name: q.Name}
	if !w.calm.mayWrite(key, q.ResourceVersion) {
		return q, nil
	}
	written, err := w.ResourceQuotaInterface.UpdateStatus(ctx, q, o)
	if apierrors.IsConflict(err) && !w.calm.conflicts(key) {
		return q, nil
	}
	if err == nil {
		w.calm.written(key)
	}
	return written, err
}

// mayWrite tells whether a measurement of a quota, as of a resourceVersion, may be written now. If not, the quota is measured again later.
func (c *calmQuotas) mayWrite(key resources.Key, resourceVersion string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed, known := c.changed[key]
	isLast := resourceVersion == strconv.FormatInt(changed.revision, 10) // otherwise a change just made has not been shown
	isOthers := changed.isNew && c.others
	calm, again, wait := quotaCalm, quotaWait{key, false}, time.Duration(0)
	if isOthers {
		calm, again, wait = quotaOthers, quotaWait{key, true}, quotaOthers
	} else if !isLast {
		wait = quotaCalm
	}
	if isLast && time.Since(changed.at) >= calm || changed.isOverdue() {
		c.others = c.others && !changed.isNew // it was left to them, and they did not measure it
		return true
	}
	if time.Since(changed.refusedLast) >= 2*quotaUnrest {
		changed.refusedFrom = time.Now()
	}
	changed.refusedLast = time.Now()
	if known {
		c.changed[key] = changed
	}
	if c.waiting[again] == nil {
		c.wait(again, wait)
	}
	return false
}

// isOverdue tells that a quota has to be measured although it is not calm: it has not been for long, or never while it was measured.
func (c quotaChange) isOverdue() bool {
	return time.Since(c.refusedFrom) >= quotaUnrest && time.Since(c.refusedLast) < 2*quotaUnrest
}

// written notes that a measurement was written.
func (c *calmQuotas) written(key resources.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if changed, ok := c.changed[key]; ok {
		changed.refusedFrom, changed.refusedLast = time.Time{}, time.Time{}
		c.changed[key] = changed
	}
}

// conflicts notes that a measurement was refused because the quota had changed. It tells whether to measure the quota again at once, because it is
// overdue.
func (c *calmQuotas) conflicts(key resources.Key) (atOnce bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if changed := c.changed[key]; changed.isOverdue() {
		changed.refusedLast = time.Now()
		c.changed[key] = changed
		return true
	}
	if of := (quotaWait{key, false}); c.waiting[of] == nil {
		c.wait(of, quotaCalm)
	}
	return false
}
