package server

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/labstack/echo/v4"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// levelLoad is what comes under one priority level: the requests under way, and how many there were.
type levelLoad struct {
	mu                   sync.Mutex
	executing            map[*flowRequest]struct{}
	dispatched, rejected int
}

// flowRequest is a request under way.
type flowRequest struct {
	schema string
	who    user.Info
	info   *genericapirequest.RequestInfo
	since  time.Time
}

// begin counts a request. The caller has to call done when it is answered.
func (l *levelLoad) begin(r *flowRequest) (done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dispatched++
	l.executing[r] = struct{}{}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.executing, r)
	}
}

// pass counts a request that takes no place: a watch.
func (l *levelLoad) pass() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dispatched++
}

// reject counts a request that is refused.
func (l *levelLoad) reject() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rejected++
}

// levelLoads are the loads of the priority levels, by name.
type levelLoads struct {
	mu sync.Mutex
	of map[string]*levelLoad
}

// use keeps the loads of those levels alone, and returns them by name.
func (l *levelLoads) use(levels []string) map[string]*levelLoad {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := make(map[string]*levelLoad, len(levels))
	for _, name := range levels {
		if of[name] = l.of[name]; of[name] == nil {
			of[name] = &levelLoad{executing: map[*flowRequest]struct{}{}}
		}
	}
	l.of = of
	return of
}

// each calls f with every level in the order of their names.
func (l *levelLoads) each(f func(name string, load *levelLoad)) {
	l.mu.Lock()
	of := l.of
	l.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(of)) {
		f(name, of[name])
	}
}

// The dumps below /debug/api_priority_and_fairness/ are kube-apiserver's, a line for what it keeps of each. No level has
// queues here: no request waits, one that finds no seat is refused.
var (
	levelColumns = []string{"PriorityLevelName", "ActiveQueues", "IsIdle", "IsQuiescing", "WaitingRequests", "ExecutingRequests", "DispatchedRequests",
		"RejectedRequests", "TimedoutRequests", "CancelledRequests"}
	queueColumns = []string{"PriorityLevelName", "Index", "PendingRequests", "ExecutingRequests", "SeatsInUse", "NextDispatchR", "InitialSeatsSum",
		"MaxSeatsSum", "TotalWorkSum"}
	requestColumns = []string{"PriorityLevelName", "FlowSchemaName", "QueueIndex", "RequestIndexInQueue", "FlowDistingsher", "ArriveTime",
		"InitialSeats", "FinalSeats", "AdditionalLatency", "StartTime"}
	detailColumns = []string{"UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion", "Resource", "SubResource"}
)

// dump answers with a table of text.
func dump(c echo.Context, columns []string, rows func(row func(cells ...string))) error {
	c.Response().Header().Set("Content-Type", "text/plain; charset=utf-8")
	c.Response().WriteHeader(http.StatusOK)
	w := tabwriter.NewWriter(c.Response(), 8, 0, 1, ' ', 0)
	row := func(cells ...string) { _, _ = io.WriteString(w, strings.Join(cells, ",\t")+"\n") } // Flush has the error
	row(columns...)
	rows(row)
	return w.Flush()
}

func (s *Server) dumpLevels(c echo.Context) error {
	return dump(c, levelColumns, func(row func(...string)) {
		s.loads.each(func(name string, l *levelLoad) {
			l.mu.Lock()
			executing, dispatched, rejected := len(l.executing), l.dispatched, l.rejected
			l.mu.Unlock()
			row(name, "0", strconv.FormatBool(executing == 0), "false", "0", strconv.Itoa(executing), strconv.Itoa(dispatched), strconv.Itoa(rejected), "0", "0")
		})
	})
}

func (s *Server) dumpQueues(c echo.Context) error {
	return dump(c, queueColumns, func(func(...string)) {})
}

func (s *Server) dumpRequests(c echo.Context) error {
	columns, details := requestColumns, c.QueryParam("includeRequestDetails") != ""
	if details {
		columns = slices.Concat(requestColumns, detailColumns)
	}
	return dump(c, columns, func(row func(...string)) {
		s.loads.each(func(name string, l *levelLoad) {
			l.mu.Lock()
			requests := slices.Collect(maps.Keys(l.executing))
			l.mu.Unlock()
			slices.SortFunc(requests, func(a, b *flowRequest) int { return a.since.Compare(b.since) })
			for _, r := range requests {
				since := r.since.UTC().Format(time.RFC3339Nano)
				cells := []string{name, r.schema, "-1", "-1", "", since, "1", "0", "0s", since}
				if i := r.info; details {
					version := i.APIVersion
					if i.APIGroup != "" {
						version = fmt.Sprintf("%s/%s", i.APIGroup, i.APIVersion)
					}
					cells = append(cells, r.who.GetName(), i.Verb, i.Path, i.Namespace, i.Name, version, i.Resource, i.Subresource)
				}
				row(cells...)
			}
		})
	})
}
