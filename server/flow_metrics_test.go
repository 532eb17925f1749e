package server_test

import (
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/rowlock/rowlock/resources/fastpath"
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
