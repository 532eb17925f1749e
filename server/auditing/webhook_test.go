package auditing

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/plugin/pkg/audit/buffered"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
)

// collector is an audit webhook that keeps the events it gets.
type collector struct {
	*httptest.Server
	// began gets a value for each call, which then waits for answer.
	began  chan struct{}
	answer func()

	mu      sync.Mutex
	batches [][]auditv1.Event
}

// newCollector returns a webhook that does not answer before answer is called, or the test ends.
func newCollector(t *testing.T) *collector {
	t.Helper()
	open := make(chan struct{})
	c := &collector{began: make(chan struct{}, 1000), answer: sync.OnceFunc(func() { close(open) })}
	c.Server = httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		c.began <- struct{}{}
		<-open
		var list auditv1.EventList
		if err := json.NewDecoder(r.Body).Decode(&list); err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.batches = append(c.batches, list.Items)
	}))
	t.Cleanup(c.Close)
	t.Cleanup(c.answer)
	return c
}

// sizes returns the number of events in each batch, in order of size, and their IDs.
func (c *collector) sizes() (sizes []int, ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, batch := range c.batches {
		sizes = append(sizes, len(batch))
		for _, e := range batch {
			ids = append(ids, strings.TrimPrefix(e.RequestURI, "/api/v1?a=b&c="))
		}
	}
	slices.Sort(sizes)
	slices.Sort(ids)
	return sizes, ids
}

// openWebhook returns an audit with a webhook.
func openWebhook(t *testing.T, c *collector, change func(*WebhookOptions)) *Auditor {
	t.Helper()
	a, _ := openLog(t, func(o *Options) {
		o.Log.Path = ""
		o.Webhook.ConfigFile, o.Webhook.InitialBackoff = kubeconfigOf(t, c.Server), time.Millisecond
		change(&o.Webhook)
	})
	return a
}

// failed returns how many events a part of the audit has failed to pass on.
func failed(t *testing.T, plugin string) int {
	t.Helper()
	counts, err := testutil.GetCounterValuesFromGatherer(legacyregistry.DefaultGatherer, "apiserver_audit_error_total", nil, "plugin")
	if err != nil && !strings.HasSuffix(err.Error(), "not found") { // nothing has failed yet
		t.Fatal(err)
	}
	return int(counts[plugin])
}

// send sends events with the given IDs, each by itself.
func send(t *testing.T, a *Auditor, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if !a.backend.ProcessEvents(event(id)) {
			t.Errorf("event %s was refused", id)
		}
	}
}

// A batch is sent when it is full, and what is left at the end.
func TestWebhookBatches(t *testing.T) {
	c := newCollector(t)
	c.answer()
	a := openWebhook(t, c, func(o *WebhookOptions) { o.Batch.MaxBatchSize, o.Batch.MaxBatchWait = 2, time.Hour })
	send(t, a, "a", "b", "c", "d", "e")
	<-c.began
	<-c.began
	a.Close()
	if sizes, ids := c.sizes(); !slices.Equal(sizes, []int{1, 2, 2}) || !slices.Equal(ids, []string{"a", "b", "c", "d", "e"}) {
		t.Errorf("batches of %v with %v", sizes, ids)
	}
	before := failed(t, "buffered")
	if taken, n := a.backend.ProcessEvents(event("f")), failed(t, "buffered")-before; taken || n != 1 {
		t.Errorf("an event after the end was taken: %t; %d are counted as lost", taken, n)
	}
}

// An incomplete batch is sent after a while.
func TestWebhookBatchWait(t *testing.T) {
	c := newCollector(t)
	c.answer()
	a := openWebhook(t, c, func(o *WebhookOptions) { o.Batch.MaxBatchWait = time.Millisecond })
	send(t, a, "a")
	<-c.began
	a.Close()
	if sizes, ids := c.sizes(); !slices.Equal(sizes, []int{1}) || !slices.Equal(ids, []string{"a"}) {
		t.Errorf("batches of %v with %v", sizes, ids)
	}
}

// Events that exceed the buffer while the webhook is slow, or the throttle holds batches back, are dropped and counted. All others are sent, at the
// latest when the audit is closed.
func TestWebhookOverflow(t *testing.T) {
	for name, batch := range map[string]buffered.BatchConfig{
		"slow, one at a time": {BufferSize: 3, MaxBatchSize: 1},
		"slow, batches":       {BufferSize: 1, MaxBatchSize: 2, MaxBatchWait: time.Hour},
		"throttled":           {BufferSize: 1, MaxBatchSize: 1, ThrottleEnable: true, ThrottleQPS: 10, ThrottleBurst: 1, AsyncDelegate: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCollector(t)
			if batch.AsyncDelegate { // the webhook holds nothing up
				c.answer()
			}
			a := openWebhook(t, c, func(o *WebhookOptions) { o.Batch = batch })
			defer c.answer() // if the test fails, before the audit is closed
			before := failed(t, "buffered")
			var want []string
			for id := 'A'; failed(t, "buffered") == before; id++ {
				if len(want) == cap(c.began)/2 {
					t.Fatalf("with a buffer of %d, %d events were taken", batch.BufferSize, len(want))
				}
				want = append(want, string(id))
				send(t, a, string(id))
			}
			want = want[:len(want)-1] // the one that was dropped
			if len(want) < batch.BufferSize {
				t.Errorf("with a buffer of %d, only %v were taken", batch.BufferSize, want)
			}
			ended := make(chan struct{})
			go func() {
				a.Close()
				close(ended)
			}()
			if !batch.AsyncDelegate {
				c.answer()
			}
			<-ended
			if sizes, ids := c.sizes(); !slices.Equal(ids, want) || slices.Max(sizes) > batch.MaxBatchSize {
				t.Errorf("batches of %v with %v, want %v", sizes, ids, want)
			}
			if n := failed(t, "buffered") - before; n != 1 {
				t.Errorf("%d events are counted as dropped", n)
			}
		})
	}
}

// Events that exceed a limit are sent without their objects, in batches within their limit. What is too large without them is counted as lost.
func TestWebhookTruncates(t *testing.T) {
	c := newCollector(t)
	c.answer()
	a := openWebhook(t, c, func(o *WebhookOptions) {
		o.Mode, o.Truncate, o.Bounds.MaxEventSize, o.Bounds.MaxBatchSize = ModeBlocking, true, 1500, 1500
	})
	before, small, large := failed(t, "truncate"), event("small"), event(strings.Repeat("x", 2000))
	small.RequestObject = nil
	if !a.backend.ProcessEvents(event("cut"), small, large) {
		t.Error("they were refused")
	}
	a.Close()
	sizes, ids := c.sizes()
	if !slices.Equal(sizes, []int{1, 1}) || !slices.Equal(ids, []string{"cut", "small"}) {
		t.Fatalf("batches of %v with %v", sizes, ids)
	}
	for i, cut := range []bool{true, false} {
		if e := c.batches[i][0]; (e.Annotations["audit.k8s.io/truncated"] == "true") != cut || (e.ResponseObject == nil) != cut {
			t.Errorf("of %s, %+v", e.RequestURI, e)
		}
	}
	if n := failed(t, "truncate") - before; n != 1 {
		t.Errorf("%d events are counted as lost", n)
	}
}

// Events that a webhook does not accept are counted, in each mode; only a strict one tells its caller.
func TestWebhookRefuses(t *testing.T) {
	hook := httptest.NewTLSServer(http.NotFoundHandler())
	defer hook.Close()
	for _, mode := range Modes {
		a := openWebhook(t, &collector{Server: hook}, func(o *WebhookOptions) { o.Mode = mode })
		before := failed(t, "webhook")
		if taken := a.backend.ProcessEvents(event("a"), &auditinternal.Event{Level: auditinternal.LevelMetadata}); taken != (mode != ModeBlockingStrict) {
			t.Errorf("%s: taken: %t", mode, taken)
		}
		a.Close()
		if n := failed(t, "webhook") - before; n != 2 {
			t.Errorf("%s: %d events are counted", mode, n)
		}
	}
}
