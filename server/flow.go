package server

import (
	"cmp"
	"slices"
	"time"

	"github.com/labstack/echo/v4"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// withFlow says under which FlowSchema and priority level a request comes, as kube-apiserver does (KEP-1040). There is one
// queue for all here: that a level is exempt from it is all that follows, besides the names.
func (s *Server) withFlow(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		info := requestInfo(c)
		flows := s.flows.Load()
		if flows == nil || longRunning(info) && info.Verb != "watch" {
			return next(c) // counted nowhere
		}
		who, _ := genericapirequest.UserFrom(c.Request().Context())
		for i := range *flows {
			if f := &(*flows)[i]; f.matches(who, info) {
				h := c.Response().Header()
				h["X-Kubernetes-Pf-Flowschema-Uid"], h["X-Kubernetes-Pf-Prioritylevel-Uid"] = f.schema, f.level
				c.Set(flowKey, f)
				break
			}
		}
		return next(c)
	}
}

// flowKey is where withFlow notes the *flow of a request.
const flowKey = "flow"

// flowOf returns the flow of a request, nil when it is counted nowhere.
func flowOf(c echo.Context) *flow {
	f, _ := c.Get(flowKey).(*flow)
	return f
}

// begin counts a request that has its place, or needs none. The caller has to call done when it is answered.
func (f *flow) begin(c echo.Context) (done func()) {
	if f == nil {
		return func() {}
	}
	who, _ := genericapirequest.UserFrom(c.Request().Context())
	return f.load.begin(&flowRequest{schema: f.name, who: who, info: requestInfo(c), since: time.Now()})
}

// flow is a FlowSchema that is in force. Its headers are shared by all answers, and must not be changed.
type flow struct {
	rules         []flowcontrolv1.PolicyRulesWithSubjects
	schema, level []string // values of headers: the UIDs of the FlowSchema and of its priority level
	exempt        bool     // the level has no limits
	name          string   // of the FlowSchema
	levelName     string
	load          *levelLoad
}

// UseFlows puts FlowSchemas into force, with the priority levels there are.
func (s *Server) UseFlows(schemas []*flowcontrolv1.FlowSchema, levels []*flowcontrolv1.PriorityLevelConfiguration) {
	flows := newFlows(schemas, levels)
	var names []string
	for _, l := range slices.Concat(bootstrap.MandatoryPriorityLevelConfigurations, levels) {
		names = append(names, l.Name)
	}
	loads := s.loads.use(names)
	for i := range flows {
		flows[i].load = loads[flows[i].levelName]
	}
	s.flows.Store(&flows)
}

// newFlows returns the flows in the order in which they are tried: by precedence, then by name. A FlowSchema whose priority
// level does not exist is not in force; the mandatory ones are, even while they are not stored.
func newFlows(schemas []*flowcontrolv1.FlowSchema, levels []*flowcontrolv1.PriorityLevelConfiguration) (flows []flow) {
	uids, exempt := make(map[string]types.UID), make(map[string]bool)
	for _, l := range slices.Concat(bootstrap.MandatoryPriorityLevelConfigurations, levels) {
		uids[l.Name], exempt[l.Name] = l.UID, l.Spec.Type == flowcontrolv1.PriorityLevelEnablementExempt
	}
	schemas = slices.DeleteFunc(slices.Clone(schemas), func(f *flowcontrolv1.FlowSchema) bool {
		_, ok := uids[f.Spec.PriorityLevelConfiguration.Name]
		return !ok
	})
	for _, mandatory := range bootstrap.MandatoryFlowSchemas {
		if !slices.ContainsFunc(schemas, func(f *flowcontrolv1.FlowSchema) bool { return f.Name == mandatory.Name }) {
			schemas = append(schemas, mandatory)
		}
	}
	slices.SortFunc(schemas, func(a, b *flowcontrolv1.FlowSchema) int {
		return cmp.Or(cmp.Compare(a.Spec.MatchingPrecedence, b.Spec.MatchingPrecedence), cmp.Compare(a.Name, b.Name))
	})
	for _, f := range schemas {
		level := f.Spec.PriorityLevelConfiguration.Name
		flows = append(flows, flow{rules: f.Spec.Rules, schema: []string{string(f.UID)}, level: []string{string(uids[level])}, exempt: exempt[level],
			name: f.Name, levelName: level})
	}
	return flows
}
