package server

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/util/flowcontrol"
	fq "k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	flowmetrics "k8s.io/apiserver/pkg/util/flowcontrol/metrics"
	flowrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// knownFlows caches upstream's classification of requests by FlowSchema and priority level. The next request of the same flow takes its seats
// without upstream's filter, if there are seats and no request waits. Entries are valid for the configuration in force: they are dropped before
// another one comes into force, and none are added until then.
type knownFlows struct {
	mu sync.RWMutex
	// generation counts the configurations. A request that began under one adds no entry under another.
	generation int
	settling   bool // a configuration is coming into force
	known      map[flowKey]*knownFlow
	levels     map[string]*levelQueues
}

const (
	// mostKnownFlows bounds the entries; the cache is cleared when it is full.
	mostKnownFlows = 4096
	// longestFlow bounds the bytes of the names in a flow: longer ones belong to no object, and come from a path, which may have a megabyte.
	longestFlow = 1024
)

// flowKey has the properties by which FlowSchemas may match resource requests, except the user's groups (flowcontrol/v1, PolicyRulesWithSubjects).
type flowKey struct {
	user, verb, group, resource, subresource, namespace string
}

type knownFlow struct {
	generation                   int
	groups                       []string // of the user
	schema, level, distinguisher string
	hash                         uint64 // by which upstream chooses its queues
	limited                      bool   // the level is not exempt
	schemaHeader, levelHeader    []string
	queues                       *levelQueues
}

// size is how many bytes the names of a flow take.
func (k flowKey) size(groups []string) int {
	n := len(k.user) + len(k.verb) + len(k.group) + len(k.resource) + len(k.subresource) + len(k.namespace)
	for _, g := range groups {
		n += len(g)
	}
	return n
}

// cloned returns copies of the names, because the originals are substrings that would keep their requests in memory.
func (k flowKey) cloned(groups []string) (flowKey, []string) {
	for _, s := range []*string{&k.user, &k.verb, &k.group, &k.resource, &k.subresource, &k.namespace} {
		*s = strings.Clone(*s)
	}
	copies := make([]string, len(groups))
	for i, g := range groups {
		copies[i] = strings.Clone(g)
	}
	return k, copies
}

func keyOfFlow(who user.Info, info *genericapirequest.RequestInfo) flowKey {
	return flowKey{who.GetName(), info.Verb, info.APIGroup, info.Resource, info.Subresource, info.Namespace}
}

// change clears the cache while f puts into force a configuration that has these levels besides the mandatory ones.
func (k *knownFlows) change(levels []*flowcontrolv1.PriorityLevelConfiguration, f func()) {
	k.begin(true)
	defer k.begin(false)
	f()
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.levels, func(name string, _ *levelQueues) bool {
		return name != flowcontrolv1.PriorityLevelConfigurationNameExempt && name != flowcontrolv1.PriorityLevelConfigurationNameCatchAll &&
			!slices.ContainsFunc(levels, func(l *flowcontrolv1.PriorityLevelConfiguration) bool { return l.Name == name })
	})
}

func (k *knownFlows) begin(settling bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.generation++
	k.settling = settling
	k.known = map[flowKey]*knownFlow{}
}

// built notes the queues of a level.
func (k *knownFlows) built(level string, q *levelQueues) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.levels[level] = q
}

func (k *knownFlows) now() int {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.generation
}

func (k *knownFlows) of(who user.Info, info *genericapirequest.RequestInfo) *knownFlow {
	k.mu.RLock()
	f := k.known[keyOfFlow(who, info)]
	k.mu.RUnlock()
	if f == nil || !slices.Equal(f.groups, who.GetGroups()) {
		return nil
	}
	return f
}

// learn adds upstream's classification of a request that began under the configuration of a generation.
func (k *knownFlows) learn(ctx context.Context, generation int, d flowcontrol.RequestDigest, fs *flowcontrolv1.FlowSchema, pl *flowcontrolv1.PriorityLevelConfiguration,
	distinguisher string, hash uint64) {
	key := keyOfFlow(d.User, d.RequestInfo)
	if d.User.GetName() == user.Anonymous || key.size(d.User.GetGroups()) > longestFlow {
		return
	}
	key, groups := key.cloned(d.User.GetGroups())
	k.mu.Lock()
	defer k.mu.Unlock()
	queues := k.levels[pl.Name]
	if k.settling || generation != k.generation || queues == nil {
		return
	}
	if len(k.known) >= mostKnownFlows {
		clear(k.known)
	}
	if l := pl.Spec.Limited; l != nil && l.LimitResponse.Type == flowcontrolv1.LimitResponseTypeQueue {
		// Upstream queues every request of such a level, and has these series from the first request on.
		flowmetrics.AddRequestsInQueues(ctx, pl.Name, fs.Name, 0)
		flowmetrics.AddSeatsInQueues(ctx, pl.Name, fs.Name, 0)
	}
	k.known[key] = &knownFlow{generation: generation, groups: groups, schema: fs.Name, level: pl.Name, distinguisher: strings.Clone(distinguisher), hash: hash, limited: pl.Spec.Type != flowcontrolv1.PriorityLevelEnablementExempt,
		schemaHeader: []string{string(fs.UID)}, levelHeader: []string{string(pl.UID)}, queues: queues}
}

// Handle implements flowcontrol.Interface.
func (f *flows) Handle(ctx context.Context, d flowcontrol.RequestDigest, note func(*flowcontrolv1.FlowSchema, *flowcontrolv1.PriorityLevelConfiguration, string),
	estimate func() flowrequest.WorkEstimate, queued fq.QueueNoteFn, execute func()) {
	if sent := sentInfo(ctx); sent != nil {
		d.RequestInfo = sent
	}
	generation := f.known.now()
	learn, hash := func() {}, new(uint64)
	ctx = context.WithValue(ctx, flowHashKey{}, hash)
	begin := func() {
		learn()
		f.executing.add(d.RequestInfo.Verb, 1)
		defer f.executing.add(d.RequestInfo.Verb, -1)
		execute()
	}
	f.Interface.Handle(ctx, d, func(fs *flowcontrolv1.FlowSchema, pl *flowcontrolv1.PriorityLevelConfiguration, distinguisher string) {
		if d.RequestInfo.IsResourceRequest && !longRunning(d.RequestInfo) {
			learn = func() { f.known.learn(ctx, generation, d, fs, pl, distinguisher, *hash) } // the hash is not known yet
		}
		note(fs, pl, distinguisher)
	}, estimate, func(waits bool) {
		if gauge := f.waiting.of(d.RequestInfo.Verb); waits {
			gauge.Inc()
		} else {
			gauge.Dec()
		}
		queued(waits)
	}, begin)
}

// pass lets a request proceed at once if its flow is known and there are seats for it. It does everything upstream does for such a request, and
// updates the same metrics.
func (f *flows) pass(c echo.Context, r *http.Request, next echo.HandlerFunc) (passed bool, err error) {
	ctx := r.Context()
	info, _ := genericapirequest.RequestInfoFrom(ctx)
	who, ok := genericapirequest.UserFrom(ctx)
	if !ok || !info.IsResourceRequest || !fastpath.Seats.On() || longRunning(info) {
		return false, nil
	}
	k := f.known.of(who, info)
	if k == nil {
		return false, nil
	}
	width := f.estimate(r, k.schema, k.level)
	request := k.queues.direct(ctx, &width, k.hash, k.distinguisher, k.schema, info, who)
	if request == nil {
		return false, nil
	}
	flowmetrics.ObserveWorkEstimatedSeats(k.level, k.schema, width.MaxSeats())
	f.executing.add(info.Verb, 1)
	defer f.executing.add(info.Verb, -1)
	if request.Finish(func() {
		waited := time.Since(request.since)
		f.access.series().filters.flow.Observe(waited.Seconds())
		err = k.execute(ctx, c, next, waited)
	}) && k.generation != f.known.now() {
		f.feed.look() // a level that is to be removed may have waited for this request
	}
	return true, err
}

func (k *knownFlow) execute(ctx context.Context, c echo.Context, next echo.HandlerFunc, waited time.Duration) error {
	if k.limited {
		flowmetrics.ObserveWaitingDuration(ctx, k.level, k.schema, "true", waited)
		genericapirequest.TrackAPFQueueWaitLatency(ctx, waited)
	}
	flowmetrics.AddDispatch(ctx, k.level, k.schema)
	h := c.Response().Header()
	h[levelHeader], h[schemaHeader] = k.levelHeader, k.schemaHeader
	began := time.Now()
	defer func() { flowmetrics.ObserveExecutionDuration(ctx, k.level, k.schema, time.Since(began)) }()
	return next(c)
}

var (
	levelHeader  = http.CanonicalHeaderKey(flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID)
	schemaHeader = http.CanonicalHeaderKey(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID)
)

// executing counts all requests in execution.
type executing struct{ reads, writes peak }

func (e *executing) of(verb string) *peak {
	switch verb {
	case "get", "list", "watch":
		return &e.reads
	}
	return &e.writes
}

// add also sets upstream's gauges. Upstream's filter sets them, too, but knows only of the requests that have passed it: so they are set again after
// each time it has set them.
func (e *executing) add(verb string, n int64) {
	gauge, kind := flowmetrics.GetExecutingMutatingConcurrency(), e.of(verb)
	if kind == &e.reads {
		gauge = flowmetrics.GetExecutingReadonlyConcurrency()
	}
	gauge.Set(float64(kind.add(n)))
}
