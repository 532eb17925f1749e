package server_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/server"
)

// executingReads returns a function for the reads in execution, as a share of the limit, since its last call.
func executingReads(t *testing.T) func() float64 {
	t.Helper()
	gather := func() (sum float64, count uint64) {
		families, err := legacyregistry.DefaultGatherer.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if f.GetName() == "apiserver_flowcontrol_read_vs_write_current_requests" && has(m, "executing") && has(m, "readOnly") {
					return m.GetHistogram().GetSampleSum(), m.GetHistogram().GetSampleCount()
				}
			}
		}
		t.Fatal("there is no such metric")
		return 0, 0
	}
	return func() float64 {
		sum, count := gather()
		for {
			if later, now := gather(); now > count {
				return (later - sum) / float64(now-count)
			}
		}
	}
}

func has(m *dto.Metric, value string) bool {
	for _, l := range m.GetLabel() {
		if l.GetValue() == value {
			return true
		}
	}
	return false
}

// The gauge of executing requests has all of them, even while upstream's filter, which counts only its own, admits one.
func TestFlowCountsAllThatExecute(t *testing.T) {
	t.Cleanup(fastpath.Seats.Turn(true))
	n := newNarrow(t, nil)
	n.use(&flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject}, 6)
	share := executingReads(t)
	const known = 4
	var answers []<-chan int
	begin := func(who string) {
		answer, code := n.send(t.Context(), who, slow), make(chan int, 1)
		go func() { code <- (<-answer).Code }()
		answers = append(answers, code)
		<-n.store.waiting
	}
	for range known {
		begin("own")
	}
	before := share()
	begin("somebody") // a new flow: upstream's filter classifies it
	if after := share(); after <= before {
		t.Errorf("with one more under way the share went from %v to %v", before, after)
	}
	close(n.store.release)
	for _, code := range answers {
		if got := <-code; got != 404 {
			t.Errorf("answered with %d", got)
		}
	}
}

// A level with queues has its series for waiting requests from the start, and no sum is NaN.
func TestFlowSeriesOfQueues(t *testing.T) {
	t.Cleanup(fastpath.Seats.Turn(true))
	n := newNarrow(t, nil)
	defer close(n.store.release)
	n.now("own", quick)
	body := n.now("master", "/metrics").Body.String()
	for _, name := range []string{"requests", "seats"} {
		if want := "apiserver_flowcontrol_current_inqueue_" + name + `{flow_schema="own",priority_level="own"} 0`; !strings.Contains(body, want) {
			t.Errorf("there is no %s", want)
		}
	}
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "apiserver_flowcontrol_") && strings.HasSuffix(line, "NaN\n") {
			t.Error(line)
		}
	}
}

// apiserver_current_inflight_requests is the largest number of requests that were executing at once since the last scrape, the scrapes among them.
// Requests that wait for a seat do not count.
func TestInflightRequests(t *testing.T) {
	const inflight = `apiserver_current_inflight_requests{request_kind="readOnly"}`
	for _, unfair := range []bool{false, true} {
		t.Run(fmt.Sprint("unfair: ", unfair), func(t *testing.T) {
			n := newNarrow(t, func(c *server.Config) { c.Unfair = unfair })
			slowly := []<-chan *httptest.ResponseRecorder{n.send(t.Context(), "own", slow)}
			<-n.store.waiting
			if !unfair {
				slowly = append(slowly, n.send(t.Context(), "own", quick))
				n.until(1, 1)
			}
			n.metric(inflight)
			if got := n.metric(inflight); got != 2 {
				t.Errorf("one request and a scrape: %d", got)
			}
			close(n.store.release)
			for _, answer := range slowly {
				<-answer
			}
			if got := n.metric(inflight); got != 2 {
				t.Errorf("since the last scrape: %d", got)
			}
			if got := n.metric(inflight); got != 1 {
				t.Errorf("a scrape alone: %d", got)
			}
		})
	}
}

// Without priority and fairness there are the metrics of requests in execution, as with kube-apiserver, and no durations of the missing filter.
func TestMetricsWithoutFlows(t *testing.T) {
	h := newServer(t, func(c *server.Config) { c.Unfair = true }).Handler()
	get(h, quick, "known")
	body := get(h, "/metrics", "known").Body.String()
	if want := `apiserver_flowcontrol_read_vs_write_current_requests_count{phase="executing",request_kind="readOnly"}`; !strings.Contains(body, want) {
		t.Errorf("there is no %s", want)
	}
	const filter = `apiserver_request_filter_duration_seconds_count{filter="`
	if !strings.Contains(body, filter+`authentication"} 2`) || strings.Contains(body, filter+"priorityandfairness") {
		t.Errorf("filters: %s", body)
	}
}
