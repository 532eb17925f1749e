package sqlstore

import (
	"fmt"
	"testing"

	"github.com/rowlock/rowlock/resources/views"
)

// computedViews are the views with columns that kubectl computes.
func computedViews() (there []views.View) {
	for _, resource := range []string{"pods", "services", "nodes", "jobs.batch", "persistentvolumes", "persistentvolumeclaims"} {
		there = append(there, views.OfBuiltin(resource))
	}
	return there
}

// Columns that kubectl computes from several fields have the same values in both databases and in rowlock sql, for
// objects of any form. (TestViewsHaveValues of cmd/rowlock compares them with what kubectl prints.)
func TestComputedColumns(t *testing.T) {
	onViewed(t, nil, func(t *testing.T, s viewed) {
		odd := `},"spec":{"containers":7,"initContainers":["x",{"name":1}],"ports":"x","accessModes":{"a":1},"completions":null,"unschedulable":"yes"},` +
			`"status":{"conditions":["x",{"type":1}],"containerStatuses":{"a":{"ready":true}},"initContainerStatuses":["y",7,null,[1]],"accessModes":"RWO","phase":7}}`
		there := computedViews()
		for _, v := range there {
			s.put(t, v.Resource, "a", "bare", `}}`)
			s.put(t, v.Resource, "a", "odd", odd)
		}
		s.put(t, "pods", "a", "sidecar", `},"spec":{"containers":[{"name":"a"},{"name":"b"}],"initContainers":[{"name":"i"},{"name":"s","restartPolicy":"Always"}]},"status":{
			"containerStatuses":[{"name":"a","ready":true,"restartCount":1,"state":{"running":{}}},{"name":"b","ready":false,"restartCount":2,"state":{"waiting":{}}}],
			"initContainerStatuses":[{"name":"i","ready":true,"restartCount":4},{"name":"s","ready":true,"started":true,"restartCount":8,"state":{"running":{}}}]}}`)
		s.put(t, "pods", "a", "starts", `},"spec":{"containers":[{"name":"a"}]},"status":{"conditions":[{"type":"Initialized","status":"False"}],
			"initContainerStatuses":[{"name":"i","ready":false,"restartCount":4}]}}`)
		s.put(t, "services", "a", "ports", `},"spec":{"ports":[{"port":80,"nodePort":30080,"protocol":"TCP"},{"port":53,"protocol":"UDP"}]}}`)
		s.put(t, "nodes", "a", "roles", `,"labels":{"node-role.kubernetes.io/worker":"","node-role.kubernetes.io/":"x","node-role.kubernetes.io/Big":"","kubernetes.io/role":"old","other":"x"}},
			"spec":{"unschedulable":true},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)
		s.put(t, "nodes", "a", "lost", `},"status":{"conditions":[{"type":"Ready","status":"Unknown"}]}}`)
		s.put(t, "jobs.batch", "a", "done", `},"spec":{"completions":3,"parallelism":2},"status":{"succeeded":3,"conditions":[{"type":"Complete","status":"True"}]}}`)
		s.put(t, "jobs.batch", "a", "many", `,"deletionTimestamp":"2023-11-14T22:13:20Z"},"spec":{"parallelism":2},"status":{"conditions":[{"type":"Failed","status":"False"}]}}`)
		s.put(t, "persistentvolumes", "a", "going", `,"deletionTimestamp":"2023-11-14T22:13:20Z"},"spec":{"accessModes":["ReadWriteOncePod","ReadWriteMany","ReadWriteOnce","ReadOnlyMany"]},"status":{"phase":"Bound"}}`)
		s.put(t, "persistentvolumeclaims", "a", "bound", `},"spec":{"volumeName":"v"},"status":{"phase":"Bound","accessModes":["ReadWriteMany"]}}`)
		s.keep(t, there...)
		for statement, want := range map[string]string{
			"SELECT name, ready, restarts FROM pods ORDER BY name":                                "[[bare 0/0 0] [odd 0/0 0] [sidecar 2/3 11] [starts 0/1 4]]",
			"SELECT name, ports FROM services ORDER BY name":                                      "[[bare <nil>] [odd <nil>] [ports 80:30080/TCP,53/UDP]]",
			"SELECT name, printed_status, roles FROM nodes ORDER BY name":                         "[[bare Unknown <nil>] [lost NotReady <nil>] [odd Unknown <nil>] [roles Ready,SchedulingDisabled Big,old,worker]]",
			`SELECT name, printed_status, completions FROM "jobs.batch" ORDER BY name`:            "[[bare Running 0/1] [done Complete 3/3] [many Terminating 0/1 of 2] [odd Running 0/1]]",
			"SELECT name, printed_status, access_modes FROM persistentvolumes ORDER BY name":      "[[bare <nil> <nil>] [going Terminating RWO,ROX,RWX,RWOP] [odd 7 <nil>]]",
			"SELECT name, printed_status, access_modes FROM persistentvolumeclaims ORDER BY name": "[[bare <nil> <nil>] [bound Bound RWX] [odd 7 <nil>]]",
		} {
			if rows := s.both(t, statement, there...); fmt.Sprint(rows) != want {
				t.Errorf("%s:\n%s, want\n%s", statement, fmt.Sprint(rows), want)
			}
		}
	})
}
