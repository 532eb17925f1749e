package auditing

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/requestctx"
)

// A request with a deadline waits no longer than that for a webhook to accept its first event, and the audit does not delay its answer
// either. A request without one, a watch, waits until the last attempt to reach the webhook.
func TestRequestWaits(t *testing.T) {
	for name, c := range map[string]struct {
		backend answering
		limit   time.Duration
		took    time.Duration
		want    error
	}{
		"taken":          {answering{time.Second, true}, 5 * time.Second, time.Second, nil},
		"not taken":      {answering{time.Second, false}, 5 * time.Second, time.Second, resources.ErrNotRecorded},
		"no answer":      {answering{81 * time.Second, false}, 5 * time.Second, 5 * time.Second, context.DeadlineExceeded},
		"no limit":       {answering{81 * time.Second, false}, 0, 81 * time.Second, resources.ErrNotRecorded},
		"late, no limit": {answering{81 * time.Second, true}, 0, 81 * time.Second, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, err := New(policy.NewFakePolicyRuleEvaluator(auditinternal.LevelMetadata, nil), c.backend, "rowlock")
				if err != nil {
					t.Fatal(err)
				}
				defer a.Close()
				a.waits = true
				defer time.Sleep(2 * c.backend.in) // the goroutine that called the back end runs until that has answered
				ctx := genericapirequest.WithRequestInfo(t.Context(), &genericapirequest.RequestInfo{IsResourceRequest: true, Verb: "get", APIVersion: "v1", Resource: "namespaces"})
				ctx, q := a.With(ctx, "id", time.Now())
				if c.limit > 0 {
					limited, end := context.WithTimeout(ctx, c.limit)
					defer end()
					ctx = limited
				}
				began := time.Now()
				_, err = q.Begin(ctx, httptest.NewRequest("GET", "/api/v1/namespaces", nil), false)
				if took := time.Since(began); !errors.Is(err, c.want) || took != c.took {
					t.Errorf("after %v: %v", took, err)
				}
				if err != nil {
					q.End(ctx)
				}
				if took := time.Since(began); took != c.took {
					t.Errorf("its end is held up until %v", took)
				}
			})
		})
	}
}

// An answer from another server takes time to be written, and none to be encoded.
func TestForwardedIsNotEncoded(t *testing.T) {
	for _, forwarded := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			a, err := New(policy.NewFakePolicyRuleEvaluator(auditinternal.LevelMetadata, nil), answering{0, true}, "rowlock")
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			ctx := genericapirequest.WithRequestInfo(t.Context(), &genericapirequest.RequestInfo{IsResourceRequest: true, Verb: "get", APIVersion: "v1", Resource: "things"})
			ctx, q := a.With(requestctx.WithLatencyTrackers(ctx), "id", time.Now())
			if ctx, err = q.Begin(ctx, httptest.NewRequest("GET", "/apis/example.com/v1/things", nil), false); err != nil {
				t.Fatal(err)
			}
			if forwarded {
				Of(ctx).Forwarded()
			}
			q.Writing()
			began := time.Now()
			time.Sleep(time.Second)
			q.Wrote(began)
			spent, _ := genericapirequest.LatencyTrackersFrom(ctx)
			if written, encoded := spent.ResponseWriteTracker.GetLatency(), spent.SerializationTracker.GetLatency(); written != time.Second || (encoded == 0) != forwarded {
				t.Errorf("forwarded: %v, written in %v, encoded in %v", forwarded, written, encoded)
			}
			q.End(ctx)
		})
	}
}
