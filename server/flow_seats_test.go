package server

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	fq "k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	"k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing/eventclock"
	"k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing/queueset"
	flowmetrics "k8s.io/apiserver/pkg/util/flowcontrol/metrics"
	flowrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// gauge keeps the value of a metric.
type gauge struct {
	flowmetrics.RatioedGauge
	mu    sync.Mutex
	value float64
}

func (g *gauge) SetDenominator(float64) {}
func (g *gauge) Set(x float64)          { g.mu.Lock(); g.value = x; g.mu.Unlock() }
func (g *gauge) Add(x float64)          { g.mu.Lock(); g.value += x; g.mu.Unlock() }
func (g *gauge) now() float64           { g.mu.Lock(); defer g.mu.Unlock(); return g.value }

type levelUnderTest struct {
	*levelQueues
	waiting, executing, occupied, wanted gauge
}

func newLevel(t *testing.T, config fq.QueuingConfig, limit int) *levelUnderTest {
	l := &levelUnderTest{}
	completer, err := levelQueuesFactory{QueueSetFactory: queueset.NewQueueSetFactory(eventclock.Real{})}.BeginConstruction(config,
		flowmetrics.RatioedGaugePair{RequestsWaiting: &l.waiting, RequestsExecuting: &l.executing}, &l.occupied, &l.wanted)
	if err != nil {
		t.Fatal(err)
	}
	l.levelQueues = completer.Complete(fq.DispatchingConfig{ConcurrencyLimit: limit, ConcurrencyDenominator: limit}).(*levelQueues)
	return l
}

func (l *levelUnderTest) reconfigure(t *testing.T, config fq.QueuingConfig, limit int) {
	completer, err := l.BeginConfigChange(config)
	if err != nil {
		t.Error(err)
		return
	}
	completer.Complete(fq.DispatchingConfig{ConcurrencyLimit: limit, ConcurrencyDenominator: limit})
}

// TestLevelKeepsItsLimit sends many requests of all widths that wait, give up, panic and linger, while the limit changes. They never occupy more
// seats than the greatest limit, each request ends in exactly one way, and none remains counted at the end.
func TestLevelKeepsItsLimit(t *testing.T) {
	t.Cleanup(fastpath.Seats.Turn(true))
	for name, config := range map[string]fq.QueuingConfig{
		"queues": {Name: "queues", DesiredNumQueues: 8, QueueLengthLimit: 20, HandSize: 3},
		"none":   {Name: "none"},
	} {
		t.Run(name, func(t *testing.T) {
			const limit, narrowest, senders, each = 10, 4, 24, 60
			l := newLevel(t, config, limit)
			var seats, most, executed, refused atomic.Int64
			var work sync.WaitGroup
			for sender := range senders {
				work.Go(func() {
					random := rand.New(rand.NewPCG(uint64(sender), 1))
					for range each {
						width := flowrequest.WorkEstimate{InitialSeats: 1}
						switch random.IntN(8) {
						case 0:
							width.InitialSeats = 1 + random.Uint64N(limit)
						case 1:
							width.FinalSeats, width.AdditionalLatency = 1+random.Uint64N(narrowest), time.Duration(random.IntN(300))*time.Microsecond
						}
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(20))*time.Millisecond)
						r, _ := l.StartRequest(ctx, &width, random.Uint64(), "", "schema", nil, nil, nil)
						ran := false
						if r != nil {
							func() {
								defer func() { _ = recover() }()
								r.Finish(func() {
									ran = true
									now := seats.Add(int64(width.InitialSeats))
									defer seats.Add(-int64(width.InitialSeats))
									for before := most.Load(); now > before && !most.CompareAndSwap(before, now); before = most.Load() {
									}
									if random.IntN(10) == 0 {
										panic("as wanted")
									}
									time.Sleep(time.Duration(random.IntN(200)) * time.Microsecond)
								})
							}()
						}
						if cancel(); ran {
							executed.Add(1)
						} else {
							refused.Add(1)
						}
						if random.IntN(20) == 0 {
							// Upstream loses count of the seat demand when a level has fewer seats than the final width of a request.
							l.reconfigure(t, config, narrowest+random.IntN(limit-narrowest+1))
						}
						if random.IntN(3) == 0 {
							time.Sleep(time.Duration(random.IntN(500)) * time.Microsecond)
						}
					}
				})
			}
			work.Wait()
			l.reconfigure(t, config, limit)
			if n := executed.Load() + refused.Load(); n != senders*each || executed.Load() == 0 {
				t.Errorf("%d executed, %d refused, of %d", executed.Load(), refused.Load(), senders*each)
			}
			if most.Load() > limit {
				t.Errorf("%d seats were taken of %d", most.Load(), limit)
			}
			taken := func() (direct, queued int) {
				l.mu.Lock()
				defer l.mu.Unlock()
				return l.taken, l.queued
			}
			for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(time.Millisecond) {
				if direct, queued := taken(); direct == 0 && queued == 0 && l.occupied.now() == 0 {
					break // those that linger have ended
				}
			}
			direct, queued := taken()
			if direct != 0 || queued != 0 || !l.IsIdle() || l.levelQueues.waiting.Load() != 0 || l.widest != 0 || l.running != 0 || l.levelQueues.executing.next != &l.levelQueues.executing {
				t.Errorf("left: %d seats, %d of queued requests, %d wait, %d run", direct, queued, l.levelQueues.waiting.Load(), l.running)
			}
			for name, g := range map[string]*gauge{"waiting": &l.waiting, "executing": &l.executing, "occupied": &l.occupied, "wanted": &l.wanted} {
				if g.now() != 0 {
					t.Errorf("the gauge of %s is at %v", name, g.now())
				}
			}
			// Upstream does not count a request that is cancelled while it is dispatched.
			if d := l.Dump(true); d.Dispatched != int(executed.Load()) || d.Rejected > int(refused.Load()) || d.Executing != 0 || d.Waiting != 0 || d.SeatsInUse != 0 {
				t.Errorf("%d executed, %d refused; the dump has %+v", executed.Load(), refused.Load(), d)
			}
		})
	}
}

// running is a request in execution on each of two levels.
type running struct{ end, ended [2]chan struct{} }

// FuzzSeats starts and ends requests that need not wait. The fast path admits and rejects the same ones as upstream's queues alone, and then
// occupies the same seats.
func FuzzSeats(f *testing.F) {
	for _, seed := range []string{"aAbBcC", "abcd0123", "hhh0a1", "aaaaaaaaaaaa000000000000", "dD00hH1"} {
		f.Add(seed, 0, 1)
		f.Add(seed, 1, 5)
		f.Add(seed, 2, 10)
	}
	f.Fuzz(func(t *testing.T, steps string, queues, limit int) {
		steps = steps[:min(len(steps), 60)]
		if limit = limit & 15; limit == 0 {
			limit = 1
		}
		config := fq.QueuingConfig{Name: "level", DesiredNumQueues: []int{-1, 0, 8}[uint(queues)%3], QueueLengthLimit: 20, HandSize: 3}
		levels := [2]*levelUnderTest{newLevel(t, config, limit), newLevel(t, config, limit)}
		var all []*running
		defer func() {
			for _, r := range all {
				r.stop()
			}
		}()
		for _, step := range []byte(steps) {
			if step >= '0' && step <= '9' { // one request ends
				if i := int(step - '0'); i < len(all) {
					all[i].stop()
					all = append(all[:i], all[i+1:]...)
				}
			} else if r := startBoth(t, levels, config, limit, 1+int(step)%8); r != nil {
				all = append(all, r)
			}
			a, b := levels[0].Dump(false), levels[1].Dump(false)
			if a.Executing != b.Executing || a.SeatsInUse != b.SeatsInUse || a.Rejected != b.Rejected || levels[0].IsIdle() != levels[1].IsIdle() {
				t.Fatalf("%d executing on %d seats, %d rejected; by the queues alone %d on %d, %d", a.Executing, a.SeatsInUse, a.Rejected, b.Executing, b.SeatsInUse, b.Rejected)
			}
		}
	})
}

// startBoth starts a request on the level with the fast path and on the one without, unless it would wait.
func startBoth(t *testing.T, levels [2]*levelUnderTest, config fq.QueuingConfig, limit, seats int) *running {
	if config.DesiredNumQueues > 0 && levels[0].Dump(false).SeatsInUse+seats > limit {
		return nil
	}
	r := &running{}
	refused := 0
	for i, level := range levels {
		back := fastpath.Seats.Turn(i == 0)
		q, _ := level.StartRequest(t.Context(), &flowrequest.WorkEstimate{InitialSeats: uint64(seats)}, 7, "", "schema", nil, nil, nil)
		back()
		if q == nil {
			refused++
			continue
		}
		end, ended, began := make(chan struct{}), make(chan struct{}), make(chan struct{})
		r.end[i], r.ended[i] = end, ended
		go func() {
			defer close(ended)
			q.Finish(func() { close(began); <-end })
		}()
		<-began
	}
	if refused == 1 {
		r.stop()
		t.Fatalf("one of %d seats is let in by one alone", seats)
	}
	if refused == 2 {
		return nil
	}
	return r
}

// stop ends the request.
func (r *running) stop() {
	for i, end := range r.end {
		if end != nil {
			close(end)
			<-r.ended[i]
		}
	}
}
