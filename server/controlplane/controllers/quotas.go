package controllers

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/controller/resourcequota"
	"k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"k8s.io/kubernetes/pkg/quota/v1/install"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/follow"
	"github.com/rowlock/rowlock/server/controlplane/controllers/hosted"
)

const (
	quotasResource        = "resourcequotas"
	podsResource          = "pods"
	claimsResource        = "resourceclaims.resource.k8s.io"
	deviceClassesResource = "deviceclasses.resource.k8s.io"

	// quotaWorkers and quotasEvery, the interval of measuring all quotas, are kube-controller-manager's values.
	quotaWorkers = 5
	quotasEvery  = 5 * time.Minute
)

// quotas writes the limits and the use of ResourceQuotas into their status. It is kube-controller-manager's controller without its
// monitors, which would follow every type with an informer of its own. Instead it is shown the changes that may reduce the use:
// deletions, and changes of the types in measured. Admission adds the use of new objects when it handles their requests.
type quotas struct {
	hosted host // not embedded, because the observer is shown all types

	// bounded holds the names of the limits of each quota, by namespace and quota. Only the goroutine that shows changes uses
	// it.
	bounded map[string]map[string][]string
	// measured are the types for which a quota measures more than the number of objects, with how to read stored objects of them.
	measured map[string]measuredType
	frees    func(resource schema.GroupVersionResource, before, now any) bool
	calm     *calmQuotas
}

// newQuotas returns the controller that measures the use of quotas.
func newQuotas(c Config) controller {
	never := func(*resources.Object) bool { return false } // it lists them when it measures
	always := func(*resources.Object) bool { return true }
	o := hosted.Options{Name: ResourceQuota, Follows: []hosted.Followed{
		{Resource: quotasResource, Needs: always},
		{Resource: podsResource, Shows: never},
		{Resource: claimsResource, Shows: never},
		{Resource: deviceClassesResource},
	}}
	q := &quotas{bounded: map[string]map[string][]string{}, measured: measuredTypes(c.Store), frees: install.DefaultUpdateFilter()}
	q.calm = newCalmQuotas(func(key resources.Key) { q.hosted.Again(key) })
	run := func(ctx context.Context, informers *hosted.Informers, client kubernetes.Interface) error {
		listers := quotaListers{store: c.Store, measured: q.measured}
		evaluators, err := core.NewEvaluators(listers.of, quotaInformers{factory: informers}, nil)
		if err != nil {
			return err
		}
		controller, err := resourcequota.NewController(ctx, &resourcequota.ControllerOptions{QuotaClient: calmClient{client.CoreV1(), q.calm},
			ResourceQuotaInformer: quotaInformers{factory: informers}.Core().V1().ResourceQuotas(),
			ResyncPeriod:          func() time.Duration { return quotasEvery },
			Registry:              newQuotaRegistry(c.Registry, c.Store, evaluators)})
		if err != nil {
			return err
		}
		controller.Run(ctx, quotaWorkers)
		return nil
	}
	q.hosted = newHost(c, o, "resourcequota-controller", run).(host)
	return q
}

// forget implements observer.
func (q *quotas) forget() {
	clear(q.bounded)
	q.calm.forget()
	q.hosted.forget()
}

// observe implements observer.
func (q *quotas) observe(e *resources.Event) {
	defer q.hosted.observe(e) // a measurement may be written only if calm knows the quota
	namespace, name := e.Object.Namespace, e.Object.Name
	if e.Object.Resource == quotasResource {
		if e.Op == resources.Delete {
			q.calm.gone(e.Object.Key)
			delete(q.bounded[namespace], name)
			if len(q.bounded[namespace]) == 0 {
				delete(q.bounded, namespace)
			}
		} else {
			if q.bounded[namespace] == nil {
				q.bounded[namespace] = map[string][]string{}
			}
			q.bounded[namespace][name] = boundedBy(e.Object)
			q.calm.isNow(e)
		}
	}
	quotas := q.bounded[namespace]
	if len(quotas) == 0 || !q.gives(e) {
		return
	}
	_, more := q.measured[e.Object.Resource]
	for name, bounded := range quotas {
		if more || slices.ContainsFunc(bounded, func(what string) bool {
			return what == e.Object.Resource || strings.TrimPrefix(what, "count/") == e.Object.Resource
		}) {
			q.calm.soon(resources.Key{Resource: quotasResource, Namespace: namespace, Name: name})
		}
	}
}

// typesChanged, turn, shown and left implement observer and roundObserver.
func (q *quotas) typesChanged()                               {}
func (q *quotas) turn(t follow.Turn)                          { q.hosted.turn(t) }
func (q *quotas) shown(resource string)                       { q.hosted.shown(resource) }
func (q *quotas) left(resource string, kind schema.GroupKind) { q.hosted.left(resource, kind) }
func (q *quotas) work(ctx context.Context)                    { q.hosted.work(ctx) }

// boundedBy returns the names of the limits of a quota.
func boundedBy(o *resources.Object) (names []string) {
	gjson.GetBytes(o.Data, "spec.hard").ForEach(func(name, _ gjson.Result) bool {
		names = append(names, name.Str)
		return true
	})
	return names
}

// gives tells whether a change may have reduced the use of a quota.
func (q *quotas) gives(e *resources.Event) bool {
	if e.Op != resources.Update {
		return e.Op == resources.Delete
	}
	t, ok := q.measured[e.Object.Resource]
	if !ok {
		return false
	}
	if e.Prev == nil {
		return true
	}
	before, err := t.indexer.Decode(e.Prev)
	if err != nil {
		return true
	}
	now, err := t.indexer.Decode(e.Object)
	return err != nil || q.frees(t.gvr, before, now)
}
