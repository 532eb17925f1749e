package requestctx_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"

	"github.com/rowlock/rowlock/resources/requestctx"
)

type key int

func TestSetIsInPlace(t *testing.T) {
	parent := context.WithValue(t.Context(), key(-1), "of the parent")
	c := requestctx.New(parent)
	for i := range key(40) { // more than fit into a Context
		ctx := requestctx.Set(c, i, int(i))
		if got := ctx.Value(i); got != int(i) {
			t.Fatalf("%d: %v", i, got)
		}
		if i < 10 && ctx != context.Context(c) {
			t.Errorf("%d is not in place", i)
		}
	}
	// A second value goes into a derived context: others may be reading the first one.
	if again := requestctx.Set(c, key(3), "again"); again.Value(key(3)) != "again" || again.Value(key(2)) != 2 || c.Value(key(3)) != 3 {
		t.Error(again.Value(key(3)), again.Value(key(2)), c.Value(key(3)))
	}
	if c.Value(key(-1)) != "of the parent" || c.Value(key(100)) != nil {
		t.Error(c.Value(key(-1)), c.Value(key(100)))
	}
}

// Values may be read while others are set, for the race detector.
func TestSetWhileOthersAsk(t *testing.T) {
	c := requestctx.New(t.Context())
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			for range 2000 {
				for i := range key(10) {
					if v := c.Value(i); v != nil && v != int(i) {
						t.Errorf("%d is %v", i, v)
					}
				}
			}
		})
	}
	for i := range key(10) {
		requestctx.Set(c, i, int(i))
	}
	work.Wait()
}

// Upstream reads the same values that it would have set itself.
func TestKeysAreUpstreams(t *testing.T) {
	c := requestctx.New(t.Context())
	who, info, said := &user.DefaultInfo{Name: "a"}, &request.RequestInfo{Verb: "get"}, &recorder{}
	requestctx.WithUser(c, who)
	requestctx.WithRequestInfo(c, info)
	requestctx.WithNamespace(c, "ns")
	requestctx.WithAudiences(c, authenticator.Audiences{"api"})
	requestctx.WithWarnings(c, said)
	if got, ok := request.UserFrom(c); !ok || got != user.Info(who) {
		t.Error("user", got)
	}
	if got, ok := request.RequestInfoFrom(c); !ok || got != info {
		t.Error("info", got)
	}
	if got, ok := request.ReceivedTimestampFrom(c); !ok || time.Since(got) > time.Hour {
		t.Error("received", got)
	}
	if got, ok := request.NamespaceFrom(c); !ok || got != "ns" {
		t.Error("namespace", got)
	}
	requestctx.WithLatencyTrackers(c)
	if request.TrackAuthenticationLatency(c, time.Second); request.AuditAnnotationsFromLatencyTrackers(c)["apiserver.latency.k8s.io/authentication"] != "1s" {
		t.Error("trackers", request.AuditAnnotationsFromLatencyTrackers(c))
	}
	if got, ok := authenticator.AudiencesFrom(c); !ok || len(got) != 1 || got[0] != "api" {
		t.Error("audiences", got)
	}
	if warning.AddWarning(c, "", "told"); said.text != "told" {
		t.Error("warnings", said.text)
	}
}

type recorder struct{ text string }

func (r *recorder) AddWarning(_, text string) { r.text = text }

func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, leave := context.WithCancel(t.Context())
		for name, wait := range map[string]func(context.Context){
			"asked whether it is over": func(ctx context.Context) { time.Sleep(time.Second) },
			"waited for":               func(ctx context.Context) { <-ctx.Done() },
			"waited for by another":    func(ctx context.Context) { child, cancel := context.WithCancel(ctx); <-child.Done(); cancel() },
		} {
			c := requestctx.New(parent)
			ctx, end := requestctx.Limit(c, time.Second)
			if ctx != context.Context(c) {
				t.Error(name, "is not in place")
			}
			began := time.Now()
			if at, ok := ctx.Deadline(); !ok || !at.Equal(began.Add(time.Second)) {
				t.Error(name, at, ok)
			}
			if ctx.Err() != nil {
				t.Error(name, "is over at once")
			}
			wait(ctx)
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) || time.Since(began) != time.Second {
				t.Error(name, ctx.Err(), time.Since(began))
			}
			select {
			case <-ctx.Done():
			default:
				t.Error(name, "Done is not closed when Err says that it is over")
			}
			if end(); c.Err() != nil {
				t.Error(name, "says after its time that the client is gone:", c.Err())
			}
			if _, ok := c.Deadline(); ok {
				t.Error(name, "still has a deadline")
			}
		}
		leave()
	})
}

// Contexts derived from a limited one end with the limit, and with the client.
func TestDerivedContextsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := requestctx.New(t.Context())
		ctx, end := requestctx.Limit(c, time.Hour)
		child, cancel := context.WithTimeout(ctx, 2*time.Hour)
		defer cancel()
		if at, _ := child.Deadline(); time.Until(at) != time.Hour {
			t.Error("the deadline of the child is", time.Until(at))
		}
		if end(); !errors.Is(child.Err(), context.Canceled) {
			t.Error("ended:", child.Err())
		}

		parent, leave := context.WithCancel(t.Context())
		ctx, end = requestctx.Limit(requestctx.New(parent), time.Hour)
		defer end()
		child, cancel = context.WithCancel(ctx)
		defer cancel()
		leave()
		<-child.Done()
		if !errors.Is(ctx.Err(), context.Canceled) || !errors.Is(child.Err(), context.Canceled) {
			t.Error("the client left:", ctx.Err(), child.Err())
		}

		// An earlier end of the parent is reported as such, and a second limit makes a new context.
		first, end := requestctx.Limit(requestctx.New(t.Context()), time.Second)
		defer end()
		second, endSecond := requestctx.Limit(first, time.Minute)
		defer endSecond()
		if at, _ := second.Deadline(); time.Until(at) != time.Second {
			t.Error("the second limit is", time.Until(at))
		}
	})
}
