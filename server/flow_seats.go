package server

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/util/flowcontrol/debug"
	fq "k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	flowmetrics "k8s.io/apiserver/pkg/util/flowcontrol/metrics"
	flowrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// levelQueues is the fq.QueueSet of one priority level: upstream's, and a shorter way around it. While nobody waits and there are seats,
// which queue a request is put into makes no difference: it would leave it at once. Such a request takes its seats here, for a tenth of
// what the queues cost. The queues cost two to three times as much as the rest of upstream's filter, so the filter as a whole takes a third
// of the time. Upstream decides about all other requests, except that a level without queues refuses them here.
//
// Upstream divides the seats by what each flow occupies. So requests on the shorter way are handed over to upstream before a request waits
// (flow_handover.go).
//
// Invariants: the seats of requests on the shorter way plus those of requests that upstream has dispatched never exceed the limit, except those of
// a single request that is wider than it. While a request waits, no other takes the shorter way, unless the level no longer has queues. Upstream's
// limit is the number of seats that the shorter way has left.
type levelQueues struct {
	fq.QueueSet // upstream's; called with mu held, which comes before its own lock

	built    func(*levelQueues) // called whenever the queues are configured
	requests flowmetrics.RatioedGaugePair
	occupied flowmetrics.RatioedGauge
	demand   *demand
	// waiting counts the requests in upstream's queues. It grows only while mu is held.
	waiting atomic.Int32

	mu     sync.Mutex
	config fq.QueuingConfig
	limits fq.DispatchingConfig // set by the controller
	given  int                  // upstream's limit
	taken  int                  // seats of requests on the shorter way
	queued int                  // seats of requests that upstream has, waiting ones included
	widest int                  // the widest request that upstream has had since it was last empty
	// executing is the head of a ring of the unfinished requests on the shorter way.
	executing            directRequest
	running              int // the length of the ring
	dispatched, rejected int
}

// levelQueuesFactory makes levelQueues, and passes each with its level's name to built.
type levelQueuesFactory struct {
	fq.QueueSetFactory
	built func(level string, q *levelQueues)
}

// BeginConstruction implements fq.QueueSetFactory.
func (f levelQueuesFactory) BeginConstruction(c fq.QueuingConfig, requests flowmetrics.RatioedGaugePair, occupied flowmetrics.RatioedGauge,
	seatDemand flowmetrics.Gauge) (fq.QueueSetCompleter, error) {
	q := &levelQueues{requests: requests, occupied: occupied, demand: &demand{Gauge: seatDemand}, built: func(*levelQueues) {}}
	q.executing.next, q.executing.prev = &q.executing, &q.executing
	completer, err := f.QueueSetFactory.BeginConstruction(c, requests, occupied, q.demand)
	if f.built != nil {
		q.built = func(q *levelQueues) { f.built(c.Name, q) }
	}
	return &levelQueuesCompleter{QueueSetCompleter: completer, q: q, config: c}, err
}

// BeginConfigChange implements fq.QueueSet.
func (q *levelQueues) BeginConfigChange(c fq.QueuingConfig) (fq.QueueSetCompleter, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	completer, err := q.QueueSet.BeginConfigChange(c)
	return &levelQueuesCompleter{QueueSetCompleter: completer, q: q, config: c}, err
}

type levelQueuesCompleter struct {
	fq.QueueSetCompleter
	q      *levelQueues
	config fq.QueuingConfig
}

// Complete implements fq.QueueSetCompleter.
func (c *levelQueuesCompleter) Complete(limits fq.DispatchingConfig) fq.QueueSet {
	q := c.q
	q.mu.Lock()
	defer q.mu.Unlock()
	q.config, q.limits = c.config, limits
	q.built(q)
	q.given = q.left()
	q.QueueSet = c.QueueSetCompleter.Complete(fq.DispatchingConfig{ConcurrencyLimit: q.given, ConcurrencyDenominator: limits.ConcurrencyDenominator})
	return q
}

// left returns the limit for upstream. Upstream lets a request that is wider than the limit proceed when no other executes. So left is 0 when the
// limit is too narrow only because of requests on the shorter way.
func (q *levelQueues) left() int {
	left := max(q.limits.ConcurrencyLimit-q.taken, 0)
	if q.taken > 0 && left < q.widest {
		return 0
	}
	return left
}

// pass gives upstream the seats that the shorter way has left. Upstream then dispatches waiting requests.
func (q *levelQueues) pass() {
	q.give(q.left())
}

// give sets upstream's limit.
func (q *levelQueues) give(limit int) {
	if limit == q.given {
		return
	}
	completer, err := q.QueueSet.BeginConfigChange(q.config)
	if err != nil {
		return // cannot happen: the configuration was valid when it came into force
	}
	q.given = limit
	completer.Complete(fq.DispatchingConfig{ConcurrencyLimit: limit, ConcurrencyDenominator: q.limits.ConcurrencyDenominator})
}

// StartRequest implements fq.QueueSet.
func (q *levelQueues) StartRequest(ctx context.Context, width *flowrequest.WorkEstimate, hash uint64, distinguisher, schema string, descr1, descr2 any,
	note fq.QueueNoteFn) (fq.Request, bool) {
	seats := width.MaxSeats()
	if told, ok := ctx.Value(flowHashKey{}).(*uint64); ok {
		*told = hash
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case !fastpath.Seats.On():
	case q.open(seats):
		return q.dispatch(ctx, width, hash, distinguisher, schema, descr1, descr2), false
	case q.config.DesiredNumQueues > 0:
		fastpath.Seats.Fallback()
		q.handOver()
	default:
		q.rejected++
		flowmetrics.AddReject(ctx, q.config.Name, schema, "concurrency-limit")
		return nil, q.idle()
	}
	q.queued += seats
	q.widest = max(q.widest, seats)
	q.pass()
	r, _ := q.QueueSet.StartRequest(ctx, width, hash, distinguisher, schema, descr1, descr2, func(waits bool) {
		if waits {
			q.waiting.Add(1)
		} else {
			q.waiting.Add(-1)
		}
		if note != nil {
			note(waits)
		}
	})
	if r == nil {
		q.forget(seats)
		return nil, q.idle()
	}
	return &queuedRequest{Request: r, q: q, width: *width}, false
}

// open tells whether a request with this many seats may take the shorter way. The caller holds mu.
func (q *levelQueues) open(seats int) bool {
	room := q.taken+q.queued+seats <= q.limits.ConcurrencyLimit
	switch queues := q.config.DesiredNumQueues; {
	case queues < 0: // the level is exempt
		return true
	case queues == 0 && (room || q.taken+q.queued == 0):
		return true
	}
	return room && q.waiting.Load() == 0
}

// direct is StartRequest for the shorter way. It returns nil, and has counted nothing, when the request must go through upstream.
func (q *levelQueues) direct(ctx context.Context, width *flowrequest.WorkEstimate, hash uint64, distinguisher, schema string,
	info *genericapirequest.RequestInfo, who user.Info) *directRequest {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.QueueSet == nil || !q.open(width.MaxSeats()) {
		return nil
	}
	return q.dispatch(ctx, width, hash, distinguisher, schema, info, who)
}

// dispatch starts a request on the shorter way, and updates upstream's metrics.
func (q *levelQueues) dispatch(ctx context.Context, width *flowrequest.WorkEstimate, hash uint64, distinguisher, schema string, descr1, descr2 any) *directRequest {
	r := &directRequest{q: q, ctx: ctx, width: *width, seats: width.MaxSeats(), hash: hash, schema: schema, distinguisher: distinguisher, since: time.Now(),
		prev: q.executing.prev, next: &q.executing}
	r.info, _ = descr1.(*genericapirequest.RequestInfo)
	r.who, _ = descr2.(user.Info)
	r.prev.next, r.next.prev = r, r
	q.running++
	q.dispatched++
	q.taken += r.seats
	if q.config.DesiredNumQueues > 0 {
		flowmetrics.ObserveQueueLength(ctx, q.config.Name, schema, 1)
	}
	flowmetrics.AddRequestsExecuting(ctx, q.config.Name, schema, 1)
	flowmetrics.AddSeatConcurrencyInUse(q.config.Name, schema, r.seats)
	q.requests.RequestsExecuting.Add(1)
	q.occupied.Add(float64(r.seats))
	q.demand.add(r.seats)
	if q.waiting.Load() > 0 {
		q.pass() // the level had queues until a moment ago
	}
	return r
}

// directRequest is a request on the shorter way.
type directRequest struct {
	q             *levelQueues
	ctx           context.Context
	width         flowrequest.WorkEstimate
	seats         int
	hash          uint64 // of the flow
	schema        string
	distinguisher string
	since         time.Time
	info          *genericapirequest.RequestInfo
	who           user.Info
	prev, next    *directRequest
	handed        *queuedRequest // what upstream has instead, once the request was handed over
}

// Finish implements fq.Request.
func (r *directRequest) Finish(execute func()) (idle bool) {
	defer func() { idle = r.finish() }()
	execute()
	return
}

func (r *directRequest) finish() (idle bool) {
	q := r.q
	q.mu.Lock()
	if r.handed != nil {
		q.mu.Unlock()
		r.handed.Request.Finish(func() {})
		return r.handed.finish(true)
	}
	defer q.mu.Unlock()
	r.leave()
	if r.width.AdditionalLatency <= 0 {
		r.release()
	} else {
		// The events of a write keep the server busy after its client has the response.
		time.AfterFunc(r.width.AdditionalLatency, func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			r.release()
		})
	}
	return q.idle()
}

// leave takes the request out of the ring.
func (r *directRequest) leave() {
	q := r.q
	r.prev.next, r.next.prev = r.next, r.prev
	q.running--
	flowmetrics.AddRequestsExecuting(r.ctx, q.config.Name, r.schema, -1)
	q.requests.RequestsExecuting.Add(-1)
}

// release returns the request's seats.
func (r *directRequest) release() {
	r.forget()
	if q := r.q; q.queued > 0 {
		q.pass()
	}
}

// forget subtracts the request's seats.
func (r *directRequest) forget() {
	q := r.q
	q.taken -= r.seats
	flowmetrics.AddSeatConcurrencyInUse(q.config.Name, r.schema, -r.seats)
	q.occupied.Add(-float64(r.seats))
	q.demand.add(-r.seats)
}

// queuedRequest is a request that went through upstream.
type queuedRequest struct {
	fq.Request
	q     *levelQueues
	width flowrequest.WorkEstimate
}

// Finish implements fq.Request.
func (r *queuedRequest) Finish(execute func()) (idle bool) {
	executed := false
	defer func() { idle = r.finish(executed) }()
	return r.Request.Finish(func() {
		executed = true
		r.q.noteDispatched()
		execute()
	})
}

func (r *queuedRequest) finish(executed bool) (idle bool) {
	q := r.q
	q.mu.Lock()
	defer q.mu.Unlock()
	seats, lingers := r.width.MaxSeats(), time.Duration(0)
	if executed {
		lingers = r.width.AdditionalLatency
		if limit := q.limits.ConcurrencyLimit; limit > 0 && int(r.width.FinalSeats) > limit {
			lingers = lingers * time.Duration(r.width.FinalSeats) / time.Duration(limit) // as upstream does: fewer seats for longer
		}
	}
	if lingers <= 0 {
		q.forget(seats)
	} else {
		time.AfterFunc(lingers, func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.forget(seats)
		})
	}
	return q.idle()
}

// noteDispatched counts a request that upstream has dispatched.
func (q *levelQueues) noteDispatched() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dispatched++
}

// forget subtracts the seats of a request that upstream has finished.
func (q *levelQueues) forget(seats int) {
	if q.queued -= seats; q.queued == 0 {
		q.widest = 0
	}
}

// IsIdle implements fq.QueueSet.
func (q *levelQueues) IsIdle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.idle()
}

func (q *levelQueues) idle() bool { return q.running == 0 && q.QueueSet.IsIdle() }

// Dump implements fq.QueueSet. Requests on the shorter way are in no queue.
func (q *levelQueues) Dump(details bool) debug.QueueSetDump {
	q.mu.Lock()
	defer q.mu.Unlock()
	d := q.QueueSet.Dump(details)
	d.Executing += q.running
	d.SeatsInUse += q.taken
	d.Dispatched, d.Rejected = q.dispatched, d.Rejected+q.rejected
	for r := q.executing.next; r != &q.executing; r = r.next {
		dump := debug.RequestDump{MatchedFlowSchema: r.schema, FlowDistinguisher: r.distinguisher, ArriveTime: r.since, StartTime: r.since, WorkEstimate: r.width}
		if details && r.info != nil && r.who != nil {
			dump.UserName, dump.RequestInfo = r.who.GetName(), *r.info
		}
		d.QueuelessExecutingRequests = append(d.QueuelessExecutingRequests, dump)
	}
	return d
}

// demand is the number of requested seats, on the shorter way and in upstream's queues.
type demand struct {
	flowmetrics.Gauge // set to the sum

	mu             sync.Mutex
	direct, queued float64
}

// Set is called by upstream with its part.
func (d *demand) Set(queued float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queued = queued
	d.Gauge.Set(d.direct + d.queued)
}

func (d *demand) add(seats int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.direct += float64(seats)
	d.Gauge.Set(d.direct + d.queued)
}
