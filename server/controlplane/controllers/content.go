package controllers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rowlock/rowlock/resources"
)

// contentDeleters is how many objects of a namespace are deleted at the same time.
const contentDeleters = 64

// errOtherNamespace says that the namespace to be emptied is gone, and that another one may have its name.
var errOtherNamespace = errors.New("the namespace is another one")

// remaining describes the content that is left in a namespace, and the errors of deleting it.
type remaining struct {
	// count has the number of objects by type, except for types with failed deletions.
	count map[schema.GroupResource]int
	// finalizers has, for each finalizer, the number of objects that it keeps.
	finalizers map[string]int
	// podsOnly: only the pods were handled yet.
	podsOnly bool
	// grace is how long the pods may still take to terminate.
	grace time.Duration
	// failures are errors that another attempt may avoid.
	failures []error
	// stuck are errors about objects that remain although nothing keeps them: pods whose node does not respond. Another
	// attempt would do the same; their deletion triggers one.
	stuck []error
	// unknown has the versions whose content is not known because their servers do not answer.
	unknown map[schema.GroupVersion]error
	// elsewhere: finalizers keep objects of another server.
	elsewhere bool
}

func (r *remaining) none() bool { return len(r.count) == 0 }

// target is a namespace to be emptied.
type target struct {
	name string
	// ended: the namespace is gone already.
	ended bool
	// deletedAt is when the deletion was requested.
	deletedAt time.Time
	// valid fails when the namespace is no longer the one whose deletion was requested.
	valid func(context.Context, runtime.Object) error
	// validNow makes the same check on the most recent state: a deletion on another server has no Commit whose
	// condition would fail if this server is behind.
	validNow func(context.Context) error
}

// target describes the namespace with this uid, or a namespace that does not exist when uid is empty.
func (c *namespaces) target(t *resources.Type, name string, uid types.UID, deletedAt time.Time) target {
	valid := func(ctx context.Context, at resources.At) error {
		still, err := c.isStill(ctx, t, name, uid, at)
		if err == nil && !still {
			err = errOtherNamespace
		}
		return err
	}
	return target{name: name, ended: uid == "", deletedAt: deletedAt,
		// A read from the watch cache is enough: the object was read before this check, so it existed while the namespace was the same.
		valid: func(ctx context.Context, _ runtime.Object) error {
			return valid(ctx, resources.At{Match: resources.Any})
		},
		validNow: func(ctx context.Context) error { return valid(ctx, resources.At{Match: resources.MostRecent}) }}
}

// empty deletes the content of a namespace. Pods come first, and the other objects only when the pods are gone, so that
// pods do not outlive the objects that protect them (KEP-5080). Pods whose deletion fails hold up nothing: the other objects are deleted
// at once, as by kube-controller-manager, which may run beside this controller. Objects that no client sees, because all versions of their
// type are proxied to another server, do not count, as in kube-controller-manager.
func (c *namespaces) empty(ctx context.Context, in target) *remaining {
	catalog := c.registry.Catalog()
	rest := &remaining{count: map[schema.GroupResource]int{}, finalizers: map[string]int{}}
	var elsewhere []metav1.APIResource
	if c.elsewhere != nil && !in.ended {
		var err error
		if elsewhere, rest.unknown, err = c.elsewhere.Namespaced(ctx); err != nil {
			rest.failures = append(rest.failures, err)
		}
	}
	pods, ok := catalog.Type("pods")
	if ok {
		if err := c.emptyOf(ctx, pods, in, rest); err != nil {
			rest.failures = append(rest.failures, err)
		}
		if rest.count[pods.GroupResource] > 0 {
			rest.podsOnly = true
			return rest
		}
	}
	hidden, err := readProxied(ctx, c.store)
	if err != nil {
		rest.failures = append(rest.failures, err)
		return rest
	}
	var others []*resources.Type
	for t := range catalog.Types {
		if t.Namespaced && t != pods && slices.Contains(t.Verbs(), "delete") && !hidden.every(catalog, t.GroupResource) {
			others = append(others, t)
		}
	}
	slices.SortFunc(others, func(a, b *resources.Type) int { return cmp.Compare(a.ResourceName(), b.ResourceName()) })
	for _, t := range others {
		if err := c.emptyOf(ctx, t, in, rest); err != nil {
			rest.failures = append(rest.failures, err)
		}
	}
	c.emptyElsewhere(ctx, elsewhere, in, rest)
	return rest
}

// emptyOf deletes the objects of a type, and counts those that stay. A failed deletion does not stop the others, but nothing is counted
// then, as in kube-controller-manager.
func (c *namespaces) emptyOf(ctx context.Context, t *resources.Type, in target, rest *remaining) error {
	before, err := c.store.Snapshot(ctx, t.ResourceName(), resources.At{Match: resources.MostRecent, Namespace: in.name})
	if err != nil || before.Count(in.name, "") == 0 {
		return err
	}
	grace, err := c.deleteAll(ctx, t, before, in)
	grace = max(0, grace-time.Since(in.deletedAt))
	rest.grace = max(rest.grace, grace)
	if err != nil {
		return err
	}
	after, err := c.store.Snapshot(ctx, t.ResourceName(), resources.At{Match: resources.MostRecent, Namespace: in.name})
	if err != nil {
		return err
	}
	if kept := rest.add(t, after, in.name); !kept && grace == 0 && rest.count[t.GroupResource] > 0 {
		rest.complain(t, in)
	}
	return nil
}

// deleteAll deletes the objects of a type, and returns the longest grace period among them. Its error is that of the first object by
// name that could not be deleted, whichever failed first: it is shown in a condition, which would otherwise change with each attempt.
func (c *namespaces) deleteAll(ctx context.Context, t *resources.Type, all resources.Snapshot, in target) (grace time.Duration, err error) {
	var deleters errgroup.Group
	deleters.SetLimit(contentDeleters)
	var mu sync.Mutex
	var failed string
	all.Ascend(in.name, "", func(o *resources.Object) bool {
		grace = max(grace, graceOf(o))
		if deletable(o) {
			deleters.Go(func() error {
				if derr := c.deleteObject(ctx, t, o, in.valid); derr != nil {
					mu.Lock()
					defer mu.Unlock()
					if err == nil || o.Name < failed {
						err, failed = derr, o.Name
					}
				}
				return nil
			})
		}
		return ctx.Err() == nil
	})
	_ = deleters.Wait() // they return no errors
	return grace, err
}

// complain records that objects of a type should be gone.
func (r *remaining) complain(t *resources.Type, in target) {
	err := unexpected(in, t.StorageVersion.WithResource(t.Resource))
	if t.ResourceName() == podsResource {
		r.stuck = append(r.stuck, err)
		return
	}
	r.failures = append(r.failures, err)
}

func unexpected(in target, of schema.GroupVersionResource) error {
	return fmt.Errorf("unexpected items still remain in namespace: %s for gvr: %v", in.name, of)
}

// deletable tells whether a delete would change anything: the first delete does, and so does one that removes the
// garbage collector's finalizers again.
func deletable(o *resources.Object) bool {
	m := readMetadata(o.Data)
	return !m.deleting || m.orphan || m.foreground
}

func (c *namespaces) deleteObject(ctx context.Context, t *resources.Type, o *resources.Object, valid func(context.Context, runtime.Object) error) error {
	background := metav1.DeletePropagationBackground
	r := resources.DeleteRequest{Type: t, Name: o.Name, Options: &metav1.DeleteOptions{PropagationPolicy: &background}, Precondition: valid}
	_, err := c.pipeline.Delete(namespaceController.Request(ctx, "delete", t, o.Key), &r)
	if errors.Is(err, errOtherNamespace) {
		return nil
	}
	return resources.UnlessGone(ctx, c.store, o.Key, types.UID(o.UID()), 0, err)
}

// add counts the remaining objects of a type, and tells whether finalizers keep any of them.
func (r *remaining) add(t *resources.Type, s resources.Snapshot, namespace string) (kept bool) {
	s.Ascend(namespace, "", func(o *resources.Object) bool {
		r.count[t.GroupResource]++
		for _, f := range finalizers(o.Data) {
			r.finalizers[f]++
			kept = true
		}
		return true
	})
	return kept
}

// graceOf returns the grace period of a pod that has not terminated.
func graceOf(o *resources.Object) time.Duration {
	if o.Resource != "pods" {
		return 0
	}
	switch corev1.PodPhase(gjson.GetBytes(o.Data, "status.phase").Str) {
	case corev1.PodSucceeded, corev1.PodFailed:
		return 0
	}
	return time.Duration(gjson.GetBytes(o.Data, "spec.terminationGracePeriodSeconds").Int()) * time.Second
}
