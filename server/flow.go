package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/filters"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/util/flowcontrol"
	fq "k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	flowmetrics "k8s.io/apiserver/pkg/util/flowcontrol/metrics"
	flowrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"

	"github.com/rowlock/rowlock/resources/upstream"
	"github.com/rowlock/rowlock/server/handlers"
)

// flows is priority and fairness (KEP-1040). The queues, their configuration and the filter are upstream's. Our own parts are the feed of the
// configuration (flow_feed.go), the shorter ways (flow_known.go, flow_seats.go) and the width of a request (flow_width.go).
//
// A seat is released when the filter's handler returns, panics included.
type flows struct {
	flowcontrol.Interface
	feed      *flowFeed
	known     *knownFlows
	executing *executing
	estimate  flowrequest.WorkEstimatorFunc
	waiting   byKind
	access    *accessMetrics // has how long a request waits until it may proceed
	// dumps are the tables below /debug/api_priority_and_fairness/.
	dumps *mux.PathRecorderMux
}

// newFlows returns nil when priority and fairness is disabled. flows works until ended is closed.
func (s *Server) newFlows() (*flows, error) {
	flowmetrics.Register() // the filter without priority and fairness has metrics among them, too
	if s.Unfair {
		return nil, nil
	}
	seats := max(s.MaxInFlight, 0) + max(s.MaxMutatingInFlight, 0)
	if seats == 0 {
		return nil, errors.New("invalid configuration: MaxRequestsInFlight=0 and MaxMutatingRequestsInFlight=0; they must add up to something positive")
	}
	upstream.KeepWaitingRatios()
	f := &flows{executing: &s.metrics.executing, waiting: s.metrics.inqueue, access: s.access, feed: newFlowFeed(s.ended), known: &knownFlows{known: map[flowKey]*knownFlow{}, levels: map[string]*levelQueues{}},
		dumps: mux.NewPathRecorderMux("priority and fairness")}
	f.Interface = upstream.NewFlows(f.feed, flowClient{}, seats, func(theirs fq.QueueSetFactory) fq.QueueSetFactory {
		return levelQueuesFactory{theirs, f.known.built}
	})
	upstream.CalmQueue(f.Interface, "priority_and_fairness_config_queue", "configQueue")
	f.estimate = flowrequest.NewWorkEstimator(s.objectStats, f.GetInterestedWatchCount, flowrequest.DefaultWorkEstimatorConfig(), f.GetMaxSeats)
	f.Install(f.dumps)
	go func() { _ = f.Run(s.ended) }() // Run fails only when informers never sync; ours are always in sync
	return f, nil
}

// RegisterWatch implements flowcontrol.Interface. A watch counts until its end, even if it outlives its handler.
func (f *flows) RegisterWatch(r *http.Request) flowcontrol.ForgetWatchFunc {
	forget := f.Interface.RegisterWatch(r)
	if forget == nil {
		return nil
	}
	ctx := r.Context()
	return func() { handlers.LaterOf(ctx).Do(func(any) { forget() }) }
}

// UseFlows puts FlowSchemas and priority levels into force: requests that arrive after it has returned are classified by them.
func (s *Server) UseFlows(schemas []*flowcontrolv1.FlowSchema, levels []*flowcontrolv1.PriorityLevelConfiguration) {
	if s.flows != nil {
		s.flows.known.change(levels, func() { s.flows.feed.use(schemas, levels) })
	}
}

// withFlow limits the requests in flight as the flags say, and rejects requests without room with 429. Priority and fairness shares the limit out;
// without it, reads and writes have separate limits.
func (s *Server) withFlow(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		if !longRunning(requestInfo(c)) {
			s.underWay.Add(1)
			defer s.underWay.Add(-1)
		}
		if isInternal(r.Context()) {
			r = r.WithContext(genericapirequest.WithUser(r.Context(), itself))
		}
		if s.flows != nil {
			if passed, err := s.flows.pass(c, r, next); passed {
				return err
			}
		}
		if info := requestInfo(c); info != nil {
			if counted := s.countedAs(r, info); counted != info { // for the metrics of rejected requests
				ctx := context.WithValue(r.Context(), sentInfoKey{}, info)
				r = r.WithContext(genericapirequest.WithRequestInfo(ctx, counted))
			}
		}
		p := passing{ResponseWriter: c.Response(), c: c, next: next, began: time.Now()}
		s.flowFilter.ServeHTTP(&p, r)
		return p.err
	}
}

// newFlowFilter returns upstream's filter for withFlow.
func (s *Server) newFlowFilter() http.Handler {
	if s.flows == nil {
		counted := func(w http.ResponseWriter, r *http.Request) {
			if info := requestInfo(w.(*passing).c); !longRunning(info) {
				kind := s.metrics.executing.of(info.Verb)
				kind.add(1)
				defer kind.add(-1)
			}
			pass(w, r)
		}
		return filters.WithMaxInFlightLimit(http.HandlerFunc(counted), max(s.MaxInFlight, 0), max(s.MaxMutatingInFlight, 0), longRunningRequest)
	}
	through := func(w http.ResponseWriter, r *http.Request) {
		s.flows.executing.add(requestInfo(w.(*passing).c).Verb, 0) // sets the gauge again, which the filter has just set
		s.access.series().filters.flow.Observe(time.Since(w.(*passing).began).Seconds())
		pass(w, r)
	}
	return filters.WithPriorityAndFairness(http.HandlerFunc(through), longRunningRequest, s.flows, s.flows.estimate, s.RequestTimeout/4)
}

// sentInfoKey is the key of the RequestInfo of a request that upstream's filter counts as another one.
type sentInfoKey struct{}

func sentInfo(ctx context.Context) *genericapirequest.RequestInfo {
	info, _ := ctx.Value(sentInfoKey{}).(*genericapirequest.RequestInfo)
	return info
}

// pass continues a request that upstream's filter has admitted.
func pass(w http.ResponseWriter, r *http.Request) {
	p := w.(*passing)
	if requestInfo(p.c).Verb == "watch" {
		if sent := sentInfo(r.Context()); sent != nil {
			r = r.WithContext(genericapirequest.WithRequestInfo(r.Context(), sent))
		}
		p.c.SetRequest(r) // carries the filter's signal for an initialized watch
	}
	next := p.next
	p.next = nil
	p.err = next(p.c)
}

// passing is a request on its way through upstream's filter.
type passing struct {
	http.ResponseWriter
	c    echo.Context
	next echo.HandlerFunc // nil once the request has passed
	// began is when the request reached the filter.
	began time.Time
	err   error // the error of the handlers after the filter
}

func longRunningRequest(r *http.Request, info *genericapirequest.RequestInfo) bool {
	if sent := sentInfo(r.Context()); sent != nil {
		info = sent
	}
	return longRunning(info)
}

// internalKey marks requests that the server sends to itself. The value is how many of them are nested.
type internalKey struct{}

func isInternal(ctx context.Context) bool { return ctx.Value(internalKey{}) != nil }

// itself is the user of internal requests for priority and fairness. They are exempt, like those of kube-apiserver's loopback client, because the
// requests that cause them may occupy the last seats.
var itself user.Info = &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup}}
