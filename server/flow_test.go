package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server"
)

// narrow is a server on which user "own" has a level of one seat, and all others have another level.
type narrow struct {
	testing.TB
	*server.Server
	store *blockedStore
}

func newNarrow(t testing.TB, change func(*server.Config)) *narrow {
	n := &narrow{TB: t}
	n.Server = newServer(t, func(c *server.Config) {
		c.MaxInFlight, c.MaxMutatingInFlight = 20, -1
		n.store = blocked(c)
		c.Authenticator = func(r *http.Request) (user.Info, bool, error) {
			who := &user.DefaultInfo{Name: r.Header.Get("Authorization"), Groups: []string{user.AllAuthenticated}}
			if who.Name == "master" {
				who.Groups = append(who.Groups, user.SystemPrivilegedGroup)
			}
			return who, true, nil
		}
		if change != nil {
			change(c)
		}
	})
	n.use(&flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeQueue,
		Queuing: &flowcontrolv1.QueuingConfiguration{Queues: 1, HandSize: 1, QueueLengthLimit: 1}}, 1)
	return n
}

// use gives the level of "own" that many seats, and a response for requests without a seat.
func (n *narrow) use(response *flowcontrolv1.LimitResponse, seats int32) {
	const name = "own"
	none, shares := int32(0), seats
	level := &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid-of-level"},
		Spec: flowcontrolv1.PriorityLevelConfigurationSpec{Type: flowcontrolv1.PriorityLevelEnablementLimited, Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
			NominalConcurrencyShares: &shares, LendablePercent: &none, BorrowingLimitPercent: &none, LimitResponse: *response}}}
	// The shares of both levels add up to the server's seats, so that one share is one seat.
	rest, left := bootstrap.SuggestedPriorityLevelConfigurationGlobalDefault.DeepCopy(), 15-seats // catch-all has 5
	rest.Spec.Limited.NominalConcurrencyShares = &left
	schema := bootstrap.SuggestedFlowSchemaGlobalDefault.DeepCopy()
	schema.Name, schema.UID, schema.Spec.MatchingPrecedence, schema.Spec.PriorityLevelConfiguration.Name = name, "uid-of-schema", 2, name
	schema.Spec.Rules[0].Subjects = []flowcontrolv1.Subject{{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: name}}}
	n.UseFlows([]*flowcontrolv1.FlowSchema{schema, bootstrap.SuggestedFlowSchemaGlobalDefault}, []*flowcontrolv1.PriorityLevelConfiguration{level, rest})
}

// send sends a GET as a user, and returns a channel for the response.
func (n *narrow) send(ctx context.Context, who, path string) <-chan *httptest.ResponseRecorder {
	answered := make(chan *httptest.ResponseRecorder, 1)
	go func() {
		r := httptest.NewRequestWithContext(ctx, "GET", path, nil)
		r.Header.Set("Authorization", who)
		w := httptest.NewRecorder()
		n.Handler().ServeHTTP(w, r)
		answered <- w
	}()
	return answered
}

// now is send, and waits for the response.
func (n *narrow) now(who, path string) *httptest.ResponseRecorder {
	return <-n.send(n.Context(), who, path)
}

// dumped returns the lines of a dump that begin with a word.
func (n *narrow) dumped(name, first string) (found []string) {
	for line := range strings.Lines(n.now("master", "/debug/api_priority_and_fairness/dump_"+name).Body.String()) {
		if cells := strings.Fields(strings.ReplaceAll(line, ",", " ")); cells[0] == first {
			found = append(found, strings.Join(cells, " "))
		}
	}
	return found
}

// until waits until the level of "own" has that many waiting and executing requests.
func (n *narrow) until(waiting, executing int) {
	n.Helper()
	n.untilLevel(func(cells []string) bool { return cells[4] == fmt.Sprint(waiting) && cells[5] == fmt.Sprint(executing) })
}

func (n *narrow) untilLevel(ok func(cells []string) bool) {
	n.Helper()
	var last []string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if last = strings.Fields(n.dumped("priority_levels", "own")[0]); ok(last) {
			return
		}
	}
	n.Fatalf("the level is %q", last)
}

const slow, quick = "/api/v1/namespaces/slow", "/api/v1/namespaces/default"

func (n *narrow) refused(w *httptest.ResponseRecorder) {
	n.Helper()
	if h := w.Header(); w.Code != 429 || h.Get("Retry-After") != "1" || h.Get("Content-Type") != "text/plain; charset=utf-8" ||
		h.Get("X-Content-Type-Options") != "nosniff" || w.Body.String() != "Too many requests, please try again later.\n" {
		n.Errorf("the answer is %d, %v, %q", w.Code, h, w.Body)
	}
	if h := w.Header(); h.Get("X-Kubernetes-Pf-Flowschema-Uid") != "uid-of-schema" || h.Get("X-Kubernetes-Pf-Prioritylevel-Uid") != "uid-of-level" {
		n.Errorf("the headers of a refused request are %v", h)
	}
}

// TestFlowQueues checks that a request without a seat waits, that one without a place in the queue gets 429, and that other levels are unaffected.
func TestFlowQueues(t *testing.T) {
	n := newNarrow(t, nil)
	counted := n.metrics() // shared by all servers of the process
	before := func(name string) int { return counted[name] }
	first := n.send(t.Context(), "own", slow)
	<-n.store.waiting
	second := n.send(t.Context(), "own", quick)
	n.until(1, 1)
	const inqueue = `apiserver_current_inqueue_requests{request_kind="readOnly"}`
	if got := n.metric(inqueue); got != 1 {
		t.Errorf("counted as waiting: %d", got)
	}
	n.refused(n.now("own", quick))
	for _, other := range []string{"somebody", "master"} {
		if w := n.now(other, quick); w.Code != 200 {
			t.Errorf("%s gets %d", other, w.Code)
		}
	}
	if w := n.now("master", "/debug/api_priority_and_fairness/dump_requests?includeRequestDetails=1"); !strings.Contains(w.Body.String(), quick) || !strings.Contains(w.Body.String(), slow) {
		t.Errorf("requests: %s", w.Body)
	}
	close(n.store.release)
	if w := <-first; w.Code != 404 {
		t.Errorf("the first: %d", w.Code)
	}
	if w := <-second; w.Code != 200 || w.Header().Get("X-Kubernetes-Pf-Flowschema-Uid") != "uid-of-schema" {
		t.Errorf("the second: %d, %v", w.Code, w.Header())
	}
	n.until(0, 0)
	if got := n.metric(inqueue); got != 0 {
		t.Errorf("counted as waiting at the end: %d", got)
	}
	for name, more := range map[string]int{`apiserver_flowcontrol_rejected_requests_total{flow_schema="own",priority_level="own",reason="queue-full"}`: 1,
		`apiserver_flowcontrol_dispatched_requests_total{flow_schema="own",priority_level="own"}`:                                                                       2,
		`apiserver_flowcontrol_current_executing_requests{flow_schema="own",priority_level="own"}`:                                                                      0,
		`apiserver_flowcontrol_current_executing_seats{flow_schema="own",priority_level="own"}`:                                                                         0,
		`apiserver_flowcontrol_request_wait_duration_seconds_count{execute="true",flow_schema="own",priority_level="own"}`:                                              2,
		`apiserver_flowcontrol_request_execution_seconds_count{flow_schema="own",priority_level="own",type="regular"}`:                                                  2,
		`apiserver_request_terminations_total{code="429",component="apiserver",group="",resource="namespaces",scope="resource",subresource="",verb="GET",version="v1"}`: 1} {
		if got := n.metric(name) - before(name); got != more {
			t.Errorf("%s has grown by %d, want %d", name, got, more)
		}
	}
	if got := n.metric(`apiserver_flowcontrol_current_limit_seats{priority_level="own"}`); got != 1 {
		t.Errorf("the limit is %d", got)
	}
}

// metrics returns the server's metrics, by name and labels.
func (n *narrow) metrics() map[string]int {
	values := map[string]int{}
	for line := range strings.Lines(n.now("master", "/metrics").Body.String()) {
		if i := strings.LastIndexByte(line, ' '); i > 0 {
			if value, err := strconv.ParseFloat(strings.TrimSpace(line[i:]), 64); err == nil {
				values[line[:i]] = int(value)
			}
		}
	}
	return values
}

func (n *narrow) metric(name string) int {
	n.Helper()
	value, ok := n.metrics()[name]
	if !ok {
		n.Errorf("there is no metric %s", name)
	}
	return value
}

// A level without queues rejects at once, and new seats are available to the next request.
func TestFlowConfigured(t *testing.T) {
	n := newNarrow(t, nil)
	defer close(n.store.release)
	n.use(&flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject}, 1)
	n.send(t.Context(), "own", slow)
	<-n.store.waiting
	n.refused(n.now("own", quick))
	n.use(&flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject}, 2)
	if w := n.now("own", quick); w.Code != 200 {
		t.Errorf("with two seats: %d", w.Code)
	}
	n.send(t.Context(), "own", slow)
	<-n.store.waiting
	n.refused(n.now("own", quick))
	n.until(0, 2)
}

// Every request releases its seat: after a panic, after a disconnect while it waits, and after waiting too long.
func TestFlowGivesBack(t *testing.T) {
	n := newNarrow(t, nil)
	n.store.View = panicking{n.store.View}
	for range 3 {
		if w := n.now("own", "/api/v1/namespaces/panic"); w.Code != 500 {
			t.Errorf("a panic: %d", w.Code)
		}
	}
	n.until(0, 0)
	first := n.send(t.Context(), "own", slow)
	<-n.store.waiting
	ctx, cancel := context.WithCancel(t.Context())
	gone := n.send(ctx, "own", quick)
	n.until(1, 1)
	cancel()
	n.refused(<-gone)
	n.until(0, 1)
	n.refused(n.now("own", quick+"?timeout=200ms")) // it may wait for a quarter of that
	close(n.store.release)
	<-first
	n.until(0, 0)
}

type panicking struct{ resources.View }

func (p panicking) Get(ctx context.Context, key resources.Key, at resources.At) (*resources.Object, error) {
	if key.Name == "panic" {
		panic("as wanted")
	}
	return p.View.Get(ctx, key, at)
}

// A watch occupies its seat until it is initialized, and is queued and rejected like other requests.
func TestFlowOfWatches(t *testing.T) {
	n := newNarrow(t, nil)
	ctx, stop := context.WithCancel(t.Context())
	const path = "/api/v1/namespaces?watch=true&timeoutSeconds=3600"
	begun := n.send(ctx, "own", path)
	n.untilLevel(func(cells []string) bool { return cells[6] == "1" && cells[5] == "0" }) // it had its seat
	if w := n.now("own", quick); w.Code != 200 {
		t.Errorf("beside a watch: %d", w.Code)
	}
	first := n.send(t.Context(), "own", slow)
	<-n.store.waiting
	second := n.send(ctx, "own", path)
	n.until(1, 1)
	n.refused(n.now("own", path))
	close(n.store.release)
	<-first
	n.until(0, 0)
	stop()
	for _, w := range []*httptest.ResponseRecorder{<-begun, <-second} {
		if w.Code != 200 || w.Header().Get("X-Kubernetes-Pf-Flowschema-Uid") != "uid-of-schema" || !strings.Contains(w.Body.String(), `"type":"ADDED"`) {
			t.Errorf("a watch: %d, %v, %.100s", w.Code, w.Header(), w.Body)
		}
	}
}

// The server's internal requests need no seat, because the requests that cause them may occupy the last one.
func TestFlowOfTheServerItself(t *testing.T) {
	n := newNarrow(t, nil)
	first := n.send(t.Context(), "own", slow)
	<-n.store.waiting
	client, err := n.Client(&user.DefaultInfo{Name: "own", Groups: []string{user.AllAuthenticated}}, "test")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := client.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	n.until(0, 1)
	close(n.store.release)
	<-first
}
