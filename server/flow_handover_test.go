package server

import (
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	fq "k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	"k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing/queueset"
	"k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing/testing/eventclock"
	flowmetrics "k8s.io/apiserver/pkg/util/flowcontrol/metrics"
	flowrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// A user who occupies all seats counts as such once requests wait, although its own have not waited: then a quiet user's requests are dispatched
// in the order in which upstream's queues alone dispatch them.
func TestOccupiedSeatsCount(t *testing.T) {
	for _, hand := range []int{1, 4} {
		with, without := dispatchOrder(t, hand, true), dispatchOrder(t, hand, false)
		if with != without {
			t.Errorf("hands of %d: dispatched are %s, by the queues alone %s", hand, with, without)
		}
	}
}

// dispatchOrder occupies all seats of a level with requests of A, lets more requests of A and then of B wait, and ends one request after the
// other. It returns whose requests are dispatched.
func dispatchOrder(t *testing.T, hand int, fast bool) string {
	defer fastpath.Seats.Turn(fast)()
	const limit, more, quiet, step = 4, 10, 5, 50 * time.Millisecond
	clock, _ := eventclock.NewFake(time.Unix(0, 0), 0, nil)
	var gauges [4]gauge
	completer, err := levelQueuesFactory{QueueSetFactory: queueset.NewQueueSetFactory(clock)}.BeginConstruction(
		fq.QueuingConfig{Name: "level", DesiredNumQueues: 32, QueueLengthLimit: 50, HandSize: hand},
		flowmetrics.RatioedGaugePair{RequestsWaiting: &gauges[0], RequestsExecuting: &gauges[1]}, &gauges[2], &gauges[3])
	if err != nil {
		t.Fatal(err)
	}
	level := completer.Complete(fq.DispatchingConfig{ConcurrencyLimit: limit, ConcurrencyDenominator: limit})
	type executing struct{ end, ended chan struct{} }
	dispatched := make(chan byte)
	var current []executing
	start := func(who byte) {
		// Only the goroutine of a request that is dispatched goes on.
		r, _ := level.StartRequest(t.Context(), &flowrequest.WorkEstimate{InitialSeats: 1}, uint64(who)<<40|uint64(who)<<20|uint64(who), string(who), "schema", nil, nil, nil)
		if r == nil {
			t.Fatal("refused")
		}
		e := executing{make(chan struct{}), make(chan struct{})}
		go func() {
			defer close(e.ended)
			r.Finish(func() {
				current = append(current, e)
				dispatched <- who
				<-e.end
			})
		}()
	}
	for range limit {
		start('A')
		<-dispatched
	}
	clock.SetTime(clock.Now().Add(time.Millisecond))
	for range more {
		start('A')
	}
	clock.SetTime(clock.Now().Add(step))
	for range quiet {
		start('B')
	}
	var order []byte
	for range more + quiet {
		clock.SetTime(clock.Now().Add(step))
		oldest := current[0]
		current = slices.Delete(current, 0, 1)
		close(oldest.end)
		order = append(order, <-dispatched)
		<-oldest.ended
	}
	for _, e := range current {
		close(e.end)
		<-e.ended
	}
	if !level.IsIdle() || gauges[1].now() != 0 || gauges[2].now() != 0 || gauges[3].now() != 0 {
		t.Errorf("left: %v executing on %v seats, %v wanted", gauges[1].now(), gauges[2].now(), gauges[3].now())
	}
	return string(order)
}

// A known flow keeps the hash by which upstream chooses its queues: its requests have to be handed over to the same ones.
func TestKnownFlowsHaveHashes(t *testing.T) {
	t.Cleanup(fastpath.Seats.Turn(true))
	s := newFlowServer(t)
	r := httptest.NewRequest("GET", "/api/v1/namespaces/default/pods/p", nil)
	info, err := s.info.NewRequestInfo(r)
	if err != nil {
		t.Fatal(err)
	}
	hashes := map[uint64]bool{0: true}
	for _, name := range []string{"a", "b", "c"} {
		who := &user.DefaultInfo{Name: "system:serviceaccount:default:" + name, Groups: []string{"system:serviceaccounts", user.AllAuthenticated}}
		ctx := genericapirequest.WithUser(genericapirequest.WithRequestInfo(t.Context(), info), who)
		var seen uint64
		if err := s.withFlow(func(echo.Context) error {
			seen = s.flows.known.of(who, info).hash
			return nil
		})(s.echo.NewContext(r.WithContext(ctx), httptest.NewRecorder())); err != nil {
			t.Fatal(err)
		}
		if hashes[seen] {
			t.Errorf("the hash of %s is %d, which others have", name, seen)
		}
		hashes[seen] = true
	}
}
