package auditing

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rowlock/rowlock/resources"
)

// answering is a back end that answers after a time, and accepts events or not.
type answering struct {
	in    time.Duration
	takes bool
}

func (b answering) ProcessEvents(...*auditinternal.Event) bool {
	time.Sleep(b.in)
	return b.takes
}
func (answering) Run(<-chan struct{}) error { return nil }
func (answering) Shutdown()                 {}
func (answering) String() string            { return "answering" }

// A write of the server's own waits for a back end no longer than a minute, nor longer than its context lasts, and its error has the reason.
func TestOwnWriteWaits(t *testing.T) {
	for name, c := range map[string]struct {
		backend  answering
		patience time.Duration
		took     time.Duration
		want     error
	}{
		"taken":          {answering{time.Second, true}, time.Hour, time.Second, nil},
		"not taken":      {answering{time.Second, false}, time.Hour, time.Second, resources.ErrNotRecorded},
		"no answer":      {answering{81 * time.Second, true}, time.Hour, time.Minute, resources.ErrNotRecorded},
		"nobody waits":   {answering{81 * time.Second, true}, time.Second, time.Second, context.DeadlineExceeded},
		"of no interest": {answering{81 * time.Second, false}, time.Hour, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				level := auditinternal.LevelMetadata
				if name == "of no interest" {
					level = auditinternal.LevelNone
				}
				a, err := New(policy.NewFakePolicyRuleEvaluator(level, nil), c.backend, "rowlock")
				if err != nil {
					t.Fatal(err)
				}
				defer a.Close()
				ctx, end := context.WithTimeout(t.Context(), c.patience)
				defer end()
				info := &genericapirequest.RequestInfo{IsResourceRequest: true, Verb: "create", APIVersion: "v1", Resource: "namespaces", Name: "x"}
				defer time.Sleep(c.backend.in) // the goroutine that called the back end runs until that has answered
				began := time.Now()
				_, err = a.Begin(genericapirequest.WithRequestInfo(ctx, info))
				if took := time.Since(began); !errors.Is(err, c.want) || took != c.took {
					t.Errorf("after %v: %v", took, err)
				}
				if errors.Is(err, resources.ErrNotRecorded) && !apierrors.IsInternalError(err) {
					t.Errorf("%v is no Status", err)
				}
			})
		})
	}
}

// When the policy records only the last event, such a write waits a minute for it, and a second each while a back end has not answered for
// a minute.
func TestOwnWriteEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := answering{81 * time.Second, true}
		a, err := New(policy.NewFakePolicyRuleEvaluator(auditinternal.LevelMetadata, []auditinternal.Stage{auditinternal.StageRequestReceived}), backend, "rowlock")
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		defer func() { time.Sleep(2 * backend.in) }()
		write := func() time.Duration {
			caller, gone := context.WithCancel(t.Context())
			info := &genericapirequest.RequestInfo{IsResourceRequest: true, Verb: "create", APIVersion: "v1", Resource: "namespaces", Name: "x"}
			began := time.Now()
			ctx, err := a.Begin(genericapirequest.WithRequestInfo(caller, info))
			if err != nil {
				t.Fatal(err)
			}
			gone() // the write is recorded nevertheless
			a.End(ctx, &resources.AuditEvent{Created: true})
			return time.Since(began)
		}
		for i, want := range []time.Duration{time.Minute, time.Second, time.Second} {
			if got := write(); got != want {
				t.Errorf("write %d took %v, want %v", i, got, want)
			}
		}
		time.Sleep(2 * backend.in) // all calls have been answered
		if got := write(); got != time.Minute {
			t.Errorf("after the back end has answered it took %v", got)
		}
	})
}
