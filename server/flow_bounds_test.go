package server

import (
	"fmt"
	"strings"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/util/flowcontrol"
)

// The cache of flows is bounded: no long names, not too many entries, and none for anonymous users, because clients choose these.
func TestKnownFlowsAreBounded(t *testing.T) {
	level, schema := bootstrap.SuggestedPriorityLevelConfigurationGlobalDefault, bootstrap.SuggestedFlowSchemaGlobalDefault
	k := &knownFlows{known: map[flowKey]*knownFlow{}, levels: map[string]*levelQueues{}}
	k.built(level.Name, &levelQueues{})
	learn := func(who *user.DefaultInfo, namespace string) bool {
		info := &genericapirequest.RequestInfo{IsResourceRequest: true, Verb: "get", Resource: "pods", Namespace: namespace}
		k.learn(t.Context(), k.now(), flowcontrol.RequestDigest{RequestInfo: info, User: who}, schema, level, "", 0)
		return k.of(who, info) != nil
	}
	somebody := &user.DefaultInfo{Name: "somebody", Groups: []string{user.AllAuthenticated}}
	if !learn(somebody, "default") {
		t.Fatal("nothing is remembered")
	}
	for what, remembered := range map[string]bool{
		"a long namespace": learn(somebody, strings.Repeat("a", longestFlow)),
		"a long group":     learn(&user.DefaultInfo{Name: "another", Groups: []string{strings.Repeat("a", longestFlow)}}, "default"),
		"nobody":           learn(&user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}, "default"),
	} {
		if remembered {
			t.Error(what, "is remembered")
		}
	}
	for i := range 3 * mostKnownFlows {
		if !learn(somebody, fmt.Sprint("namespace-", i)) || len(k.known) > mostKnownFlows {
			t.Fatalf("%d are remembered after %d", len(k.known), i)
		}
	}
	k.change([]*flowcontrolv1.PriorityLevelConfiguration{level}, func() { k.built("gone", &levelQueues{}) })
	if len(k.levels) != 1 || len(k.known) != 0 {
		t.Errorf("levels %v and %d flows are left", k.levels, len(k.known))
	}
}
