package server

import (
	"context"
	"math"
)

// flowHashKey is the key of a *uint64 that levelQueues sets to the hash by which upstream chooses a flow's queues.
type flowHashKey struct{}

// handOver makes upstream know the requests on the shorter way, which it then counts to their flows. It does so before the first request waits:
// from then on upstream chooses whose request is next, and a user who occupies all seats would otherwise count as one who occupies none. A
// request is handed over once at most. Those that have ended, and keep their seats for a moment, are not.
//
// No request of upstream's queues waits yet, and upstream has no limit meanwhile, so that it dispatches the requests at once: the present limit may
// be smaller than it was when they began, and upstream may have seats in use for a moment after they were counted as free here. The caller calls
// pass afterwards.
func (q *levelQueues) handOver() {
	if q.running == 0 || q.waiting.Load() > 0 {
		return
	}
	var handed []*directRequest
	for r := q.executing.next; r != &q.executing; r = q.executing.next {
		r.leave()
		r.forget()
		q.queued += r.seats
		q.widest = max(q.widest, r.seats)
		handed = append(handed, r)
	}
	q.give(math.MaxInt32)
	for _, r := range handed {
		// The end of the request's context does not free its seats.
		up, _ := q.QueueSet.StartRequest(context.WithoutCancel(r.ctx), &r.width, r.hash, r.distinguisher, r.schema, r.info, r.who, nil)
		r.handed = &queuedRequest{Request: up, q: q, width: r.width}
	}
}
