package server_test

import (
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// Requests of a known flow are counted like those of a new one.
func TestFlowKnownIsCounted(t *testing.T) {
	t.Cleanup(fastpath.Seats.Turn(true))
	n := newNarrow(t, nil)
	defer close(n.store.release)
	counted := n.metrics()
	const times = 4
	for range times {
		if w := n.now("own", quick); w.Code != 200 || w.Header().Get("X-Kubernetes-Pf-Flowschema-Uid") != "uid-of-schema" || w.Header().Get("X-Kubernetes-Pf-Prioritylevel-Uid") != "uid-of-level" {
			t.Errorf("%d, %v", w.Code, w.Header())
		}
	}
	for name, more := range map[string]int{
		`apiserver_flowcontrol_dispatched_requests_total{flow_schema="own",priority_level="own"}`:                          times,
		`apiserver_flowcontrol_current_executing_requests{flow_schema="own",priority_level="own"}`:                         0,
		`apiserver_flowcontrol_current_executing_seats{flow_schema="own",priority_level="own"}`:                            0,
		`apiserver_flowcontrol_work_estimated_seats_count{flow_schema="own",priority_level="own"}`:                         times,
		`apiserver_flowcontrol_request_wait_duration_seconds_count{execute="true",flow_schema="own",priority_level="own"}`: times,
		`apiserver_flowcontrol_request_execution_seconds_count{flow_schema="own",priority_level="own",type="regular"}`:     times} {
		if got := n.metric(name) - counted[name]; got != more {
			t.Errorf("%s has grown by %d, want %d", name, got, more)
		}
	}
	n.send(t.Context(), "own", slow)
	<-n.store.waiting
	waits := n.send(t.Context(), "own", quick) // although its flow is known, it gets no seat
	n.until(1, 1)
	n.refused(n.now("own", quick))
	n.store.release <- struct{}{}
	if w := <-waits; w.Code != 200 {
		t.Errorf("who waited gets %d", w.Code)
	}
	n.until(0, 0)
}

// TestFlowKnownAgreesWithUpstream changes FlowSchemas at random, sends requests of known and of new flows, and compares their FlowSchema and level
// with upstream's classification. Requests during a change must get the one before or the one after it.
func TestFlowKnownAgreesWithUpstream(t *testing.T) {
	t.Cleanup(fastpath.Seats.Turn(true))
	n := newNarrow(t, nil)
	close(n.store.release)
	random := rand.New(rand.NewPCG(1, 2))
	users := []string{"a", "b", "system:serviceaccount:x:c", "system:serviceaccount:y:c", "master"}
	paths := []string{quick, "/api/v1/namespaces/x/pods/p", "/api/v1/namespaces/y/pods/p", "/api/v1/namespaces/x/pods/p/status", "/apis/apps/v1/namespaces/x/deployments/d",
		"/api/v1/namespaces/y/pods", "/api/v1/nodes", "/version"}
	under := func(who, path string) string {
		h := n.now(who, path).Header()
		return h.Get("X-Kubernetes-Pf-Flowschema-Uid") + " " + h.Get("X-Kubernetes-Pf-Prioritylevel-Uid")
	}
	// all returns the classification of each request; with says whether known flows may be used.
	all := func(with bool) (said []string) {
		defer fastpath.Seats.Turn(with)()
		for _, who := range users {
			for _, path := range paths {
				said = append(said, under(who, path))
			}
		}
		return said
	}
	different := 0
	var last []string
	for round := range 30 {
		schemas, levels := randomFlows(random, users, round)
		before := all(false)
		var work sync.WaitGroup
		during := make([][]string, 3)
		for i := range during {
			work.Go(func() {
				for _, who := range users {
					for _, path := range paths {
						during[i] = append(during[i], under(who, path))
					}
				}
			})
		}
		n.UseFlows(schemas, levels)
		first := all(true)
		work.Wait()
		again, plain := all(true), all(false)
		if !slices.Equal(first, plain) || !slices.Equal(again, plain) {
			t.Fatalf("round %d: upstream says\n%q, known are\n%q, then\n%q", round, plain, first, again)
		}
		for _, said := range during {
			for i := range said {
				if said[i] != before[i] && said[i] != plain[i] {
					t.Fatalf("round %d: request %d comes under %q, neither %q nor %q", round, i, said[i], before[i], plain[i])
				}
			}
		}
		if !slices.Equal(plain, last) {
			different++
		}
		last = plain
	}
	if different < 20 {
		t.Errorf("only %d rounds differ from the one before", different)
	}
}

// choices chooses a number below n.
type choices interface{ IntN(n int) int }

// randomFlows are FlowSchemas and levels whose UIDs have the round.
func randomFlows(random choices, users []string, round int) (schemas []*flowcontrolv1.FlowSchema, levels []*flowcontrolv1.PriorityLevelConfiguration) {
	one := func(of ...string) []string { return []string{of[random.IntN(len(of))]} }
	for i := range 1 + random.IntN(3) {
		level := bootstrap.SuggestedPriorityLevelConfigurationGlobalDefault.DeepCopy()
		level.Name, level.UID = fmt.Sprint("level-", i), types.UID(fmt.Sprintf("level-%d-%d", i, round))
		levels = append(levels, level)
	}
	for i := range 1 + random.IntN(6) {
		who := users[random.IntN(len(users))]
		subject := flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: who}}
		if parts := strings.Split(who, ":"); len(parts) == 4 && random.IntN(2) == 0 {
			subject = flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindServiceAccount,
				ServiceAccount: &flowcontrolv1.ServiceAccountSubject{Namespace: parts[2], Name: one(parts[3], "*")[0]}}
		} else if random.IntN(2) == 0 {
			subject = flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindGroup, Group: &flowcontrolv1.GroupSubject{Name: one("system:authenticated", "system:masters", "dogs", "cats")[0]}}
		}
		rule := flowcontrolv1.PolicyRulesWithSubjects{Subjects: []flowcontrolv1.Subject{subject}}
		rule.ResourceRules = []flowcontrolv1.ResourcePolicyRule{{Verbs: one("*", "get", "list"), APIGroups: one("", "*", "apps"), Resources: one("*", "pods", "pods/status", "nodes"),
			Namespaces: one("*", "x", "y"), ClusterScope: random.IntN(2) == 0}}
		schemas = append(schemas, &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("schema-", i), UID: types.UID(fmt.Sprintf("schema-%d-%d", i, round))},
			Spec: flowcontrolv1.FlowSchemaSpec{MatchingPrecedence: int32(2 + random.IntN(200)), Rules: []flowcontrolv1.PolicyRulesWithSubjects{rule},
				PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: levels[random.IntN(len(levels))].Name},
				DistinguisherMethod:        &flowcontrolv1.FlowDistinguisherMethod{Type: flowcontrolv1.FlowDistinguisherMethodByNamespaceType}}})
	}
	return schemas, levels
}

// A user with different groups is a different flow.
func TestFlowKnownByGroups(t *testing.T) {
	t.Cleanup(fastpath.Seats.Turn(true))
	n := newNarrow(t, nil)
	close(n.store.release)
	ask := func(groups string) string {
		r := httptest.NewRequest("GET", quick, nil)
		r.Header.Set("Authorization", "master")
		r.Header.Set("Impersonate-User", "somebody")
		r.Header.Set("Impersonate-Group", groups)
		w := httptest.NewRecorder()
		n.Handler().ServeHTTP(w, r)
		return w.Header().Get("X-Kubernetes-Pf-Prioritylevel-Uid")
	}
	schema := bootstrap.SuggestedFlowSchemaGlobalDefault.DeepCopy()
	schema.Name, schema.UID, schema.Spec.MatchingPrecedence = "of-a-group", "uid", 2
	schema.Spec.Rules[0].Subjects = []flowcontrolv1.Subject{{Kind: flowcontrolv1.SubjectKindGroup, Group: &flowcontrolv1.GroupSubject{Name: "dogs"}}}
	level := bootstrap.SuggestedPriorityLevelConfigurationGlobalDefault.DeepCopy()
	level.UID = "uid-of-dogs"
	n.UseFlows([]*flowcontrolv1.FlowSchema{schema}, []*flowcontrolv1.PriorityLevelConfiguration{level})
	for i := range 6 {
		groups := "dogs"
		if i%2 == 1 {
			groups = "cats"
		}
		if got := ask(groups); (got == "uid-of-dogs") != (groups == "dogs") {
			t.Errorf("%s: %q", groups, got)
		}
	}
}
