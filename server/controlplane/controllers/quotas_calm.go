package controllers

import (
	"context"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	informersv1 "k8s.io/client-go/informers/core/v1"
	listersv1 "k8s.io/client-go/listers/core/v1"

	"github.com/rowlock/rowlock/resources"
)

const (
	// quotaCalm is for how long a quota has to be as it is before it is measured: what a request uses is added to the quota first, and is
	// there to be counted only when the request has been carried out, which takes a few milliseconds.
	quotaCalm = 100 * time.Millisecond
	// quotaUnrest is how long that is waited for. What was measured without it is measured again.
	quotaUnrest = 2 * time.Second
)

// calmQuotas tells how long quotas have been as they are. Measured in the moment in which a request was let through and is not carried out
// yet, a quota would lose what the request uses: more than it allows would be let in, and its status would be wrong until something goes.
type calmQuotas struct {
	mu   sync.Mutex
	seen map[resources.Key]quotaSeen
}

type quotaSeen struct {
	revision int64
	at       time.Time
}

func newCalmQuotas() *calmQuotas { return &calmQuotas{seen: map[resources.Key]quotaSeen{}} }

func (c *calmQuotas) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.seen)
}

func (c *calmQuotas) gone(key resources.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.seen, key)
}

// since notes a revision of a quota, and returns for how long it has been the one that is known.
func (c *calmQuotas) since(key resources.Key, revision int64) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := c.seen[key]; last.revision >= revision {
		return time.Since(last.at)
	}
	c.seen[key] = quotaSeen{revision, time.Now()}
	return 0
}

// calmInformer is an informer of quotas whose lister gives a quota when it is calm.
type calmInformer struct {
	informersv1.ResourceQuotaInformer

	ctx   context.Context //nolint:containedctx // upstream's controller reads quotas without one
	calm  *calmQuotas
	again func(resources.Key)
}

func (i calmInformer) Lister() listersv1.ResourceQuotaLister {
	return calmLister{i.ResourceQuotaInformer.Lister(), i}
}

type calmLister struct {
	listersv1.ResourceQuotaLister

	informer calmInformer
}

func (l calmLister) ResourceQuotas(namespace string) listersv1.ResourceQuotaNamespaceLister {
	return calmNamespaceLister{l.ResourceQuotaLister.ResourceQuotas(namespace), l.informer}
}

type calmNamespaceLister struct {
	listersv1.ResourceQuotaNamespaceLister

	informer calmInformer
}

// Get implements listersv1.ResourceQuotaNamespaceLister for what measures the quota.
func (l calmNamespaceLister) Get(name string) (*corev1.ResourceQuota, error) {
	for end := time.Now().Add(quotaUnrest); ; {
		q, err := l.ResourceQuotaNamespaceLister.Get(name)
		if err != nil || len(q.Status.Used) == 0 { // nothing is let through before it was measured once
			return q, err
		}
		key := resources.Key{Resource: quotasResource, Namespace: q.Namespace, Name: name}
		revision, err := strconv.ParseInt(q.ResourceVersion, 10, 64)
		if err != nil {
			return nil, err
		}
		left := quotaCalm - l.informer.calm.since(key, revision)
		switch {
		case left <= 0:
			return q, nil
		case time.Now().After(end):
			time.AfterFunc(quotaCalm, func() { l.informer.again(key) })
			return q, nil
		}
		select {
		case <-l.informer.ctx.Done():
			return nil, context.Cause(l.informer.ctx)
		case <-time.After(left):
		}
	}
}
