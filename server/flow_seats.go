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
// which queue a request is put into makes no difference: it would leave it at once. Such a request takes its seats here, for a
// tenth of what the queues cost. All others, and so whatever has to be decided while the level is full, is upstream's to decide.
//
// What must stay true: the seats of requests that came by the shorter way, and of those that upstream has dispatched, are no more than
// the limit. While somebody waits, nobody takes the shorter way; upstream's limit is what the shorter way has left.
type levelQueues struct {
	fq.QueueSet // upstream's; called with mu, which comes before its own lock

	built    func(*levelQueues) // called whenever they are configured
	requests flowmetrics.RatioedGaugePair
	occupied flowmetrics.RatioedGauge
	demand   *demand
	// waiting are the requests that upstream keeps in its queues. It grows with mu held alone.
	waiting atomic.Int32

	mu     sync.Mutex
	config fq.QueuingConfig
	limits fq.DispatchingConfig // by the controller's word
	given  int                  // upstream's limit
	taken  int                  // seats of requests that came by the shorter way
	queued int                  // seats of requests that upstream has, waiting ones included
	widest int                  // of the requests that upstream has had since it last had none
	// executing are the requests of the shorter way that are not answered, in a ring that begins and ends here.
	executing            directRequest
	running              int // how many these are
	dispatched, rejected int
}

// levelQueuesFactory makes them, and says for which level.
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

// left is the limit for upstream. It lets one request that is wider than the limit on where it has no others, so that it is given
// no limit that only looks too narrow because of what came by the shorter way.
func (q *levelQueues) left() int {
	left := max(q.limits.ConcurrencyLimit-q.taken, 0)
	if q.taken > 0 && left < q.widest {
		return 0
	}
	return left
}

// pass gives upstream the seats that the shorter way has left. It dispatches requests that wait for them.
func (q *levelQueues) pass() {
	left := q.left()
	if left == q.given {
		return
	}
	completer, err := q.QueueSet.BeginConfigChange(q.config)
	if err != nil {
		return // it was valid when it came into force
	}
	q.given = left
	completer.Complete(fq.DispatchingConfig{ConcurrencyLimit: left, ConcurrencyDenominator: q.limits.ConcurrencyDenominator})
}

// StartRequest implements fq.QueueSet.
func (q *levelQueues) StartRequest(ctx context.Context, width *flowrequest.WorkEstimate, hash uint64, distinguisher, schema string, descr1, descr2 any,
	note fq.QueueNoteFn) (fq.Request, bool) {
	seats := width.MaxSeats()
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case !fastpath.Seats.On():
	case q.open(seats):
		return q.dispatch(ctx, width, distinguisher, schema, descr1, descr2), false
	case q.config.DesiredNumQueues > 0:
		fastpath.Seats.Fallback()
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

// open tells whether a request that takes so many seats may take the shorter way. The caller holds mu.
func (q *levelQueues) open(seats int) bool {
	room := q.taken+q.queued+seats <= q.limits.ConcurrencyLimit
	switch queues := q.config.DesiredNumQueues; {
	case queues < 0: // there is no limit
		return true
	case queues == 0 && (room || q.taken+q.queued == 0):
		return true
	}
	return room && q.waiting.Load() == 0
}

// direct is StartRequest for requests that take the shorter way. It returns nil for others, of which nothing has been counted.
func (q *levelQueues) direct(ctx context.Context, width *flowrequest.WorkEstimate, distinguisher, schema string, info *genericapirequest.RequestInfo, who user.Info) *directRequest {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.QueueSet == nil || !q.open(width.MaxSeats()) {
		return nil
	}
	return q.dispatch(ctx, width, distinguisher, schema, info, who)
}

// dispatch has a request take the shorter way. It counts what upstream does.
func (q *levelQueues) dispatch(ctx context.Context, width *flowrequest.WorkEstimate, distinguisher, schema string, descr1, descr2 any) *directRequest {
	r := &directRequest{q: q, ctx: ctx, width: *width, seats: width.MaxSeats(), schema: schema, distinguisher: distinguisher, since: time.Now(),
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
		q.pass() // of a level that had queues until a moment ago
	}
	return r
}

// directRequest is a request that came by the shorter way.
type directRequest struct {
	q             *levelQueues
	ctx           context.Context
	width         flowrequest.WorkEstimate
	seats         int
	schema        string
	distinguisher string
	since         time.Time
	info          *genericapirequest.RequestInfo
	who           user.Info
	prev, next    *directRequest
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
	defer q.mu.Unlock()
	r.prev.next, r.next.prev = r.next, r.prev
	q.running--
	flowmetrics.AddRequestsExecuting(r.ctx, q.config.Name, r.schema, -1)
	q.requests.RequestsExecuting.Add(-1)
	if r.width.AdditionalLatency <= 0 {
		r.release()
	} else {
		// Its events keep the server busy, and its client waits no longer.
		time.AfterFunc(r.width.AdditionalLatency, func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			r.release()
		})
	}
	return q.idle()
}

// release gives its seats back.
func (r *directRequest) release() {
	q := r.q
	q.taken -= r.seats
	flowmetrics.AddSeatConcurrencyInUse(q.config.Name, r.schema, -r.seats)
	q.occupied.Add(-float64(r.seats))
	q.demand.add(-r.seats)
	if q.queued > 0 {
		q.pass()
	}
}

// queuedRequest is a request that upstream has.
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
			lingers = lingers * time.Duration(r.width.FinalSeats) / time.Duration(limit) // upstream makes it narrower, and longer
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

// noteDispatched counts a request that upstream has let go on.
func (q *levelQueues) noteDispatched() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dispatched++
}

// forget takes account of a request that upstream has no more.
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

// Dump implements fq.QueueSet. Requests that came by the shorter way are in no queue.
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

// demand is how many seats are wanted, by the shorter way and in upstream's queues.
type demand struct {
	flowmetrics.Gauge // of the whole

	mu             sync.Mutex
	direct, queued float64
}

// Set is called by upstream for what it has.
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
