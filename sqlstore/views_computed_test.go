package sqlstore

import (
	"fmt"
	"testing"

	"github.com/rowlock/rowlock/resources/views"
)

// computedViews are the views with columns that kubectl computes.
func computedViews() (there []views.View) {
	for _, resource := range []string{"pods", "services", "nodes", "jobs.batch", "persistentvolumes", "persistentvolumeclaims", "events", "endpoints", "resourcequotas",
		"certificatesigningrequests.certificates.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io", "compositepodgroups.scheduling.k8s.io", "controllerrevisions.apps",
		"endpointslices.discovery.k8s.io", "evictionrequests.lifecycle.k8s.io", "evictions.lifecycle.k8s.io", "flowschemas.flowcontrol.apiserver.k8s.io",
		"horizontalpodautoscalers.autoscaling", "ingressclasses.networking.k8s.io", "ingresses.networking.k8s.io", "ipaddresses.networking.k8s.io",
		"mutatingadmissionpolicybindings.admissionregistration.k8s.io", "podcertificaterequests.certificates.k8s.io", "podgroups.scheduling.k8s.io",
		"resourceclaims.resource.k8s.io", "resourcepoolstatusrequests.resource.k8s.io", "storageversionmigrations.storagemigration.k8s.io",
		"storageversions.internal.apiserver.k8s.io"} {
		there = append(there, views.OfBuiltin(resource))
	}
	return there
}

// Columns that kubectl computes from several fields have the same values in both databases and in rowlock sql, for
// objects of any form. (TestViewsHaveComputedValues of resources/builtin compares them with what kubectl prints.)
func TestComputedColumns(t *testing.T) {
	onViewed(t, nil, func(t *testing.T, s viewed) {
		odd := `,"ownerReferences":["x",{"controller":true}]},"subsets":[7,{"addresses":7,"ports":[1]},{"addresses":["x",{}]}],"endpoints":["x",{"addresses":[7,{}]}],"ports":["x",{}],"subjects":["x",{"kind":"User"}],
			"spec":{"metrics":["x",{"type":7},{"type":"Pods","pods":7}],"rules":["x",{"host":7}],"tls":7,"externalIPs":{"a":1},"paramRef":"x","parentRef":7,"readinessGates":["x"],"containers":7,"initContainers":["x",{"name":1}],"ports":"x","accessModes":{"a":1},"completions":null,"unschedulable":"yes"},` +
			`"status":{"hard":["x"],"used":7,"loadBalancer":{"ingress":["x",{"ip":{}}]},"currentMetrics":["x",7],"pools":["x",{}],"responders":["x"],"requesters":[7],"targetResponders":["x",{"state":"Active"}],
			"conditions":["x",{"type":1}],"containerStatuses":{"a":{"ready":true}},"initContainerStatuses":["y",7,null,[1]],"accessModes":"RWO","phase":7}}`
		there := computedViews()
		for _, v := range there {
			s.put(t, v.Resource, "a", "bare", `}}`)
			s.put(t, v.Resource, "a", "odd", odd)
		}
		s.keep(t, there...)
		for _, v := range there {
			s.bothButAge(t, v.Name, there...)
		}
		s.put(t, "jobs.batch", "a", "timed", `},"status":{"startTime":"2026-01-02T03:04:05Z","completionTime":"2026-01-02T04:04:06Z"}}`)
		s.put(t, "jobs.batch", "a", "timeless", `},"status":{"startTime":"0000-01-01T00:00:00Z"}}`)
		s.put(t, "jobs.batch", "a", "times", `},"status":{"startTime":"2026-01-02T03:04:05Z"}}`)
		s.put(t, "events", "a", "once", `},"eventTime":"2026-01-02T03:04:05.000006Z","firstTimestamp":null,"lastTimestamp":null}`)
		s.put(t, "events", "a", "twice", `},"firstTimestamp":"2026-01-02T03:04:05Z","lastTimestamp":"2026-01-02T04:04:06Z"}`)
		s.put(t, "resourcepoolstatusrequests.resource.k8s.io", "", "done", `},"status":{"conditions":[{"type":"Complete","status":"True","lastTransitionTime":"2026-01-02T03:04:05Z"}]}}`)
		s.put(t, "evictions.lifecycle.k8s.io", "a", "begun", `},"status":{"targetResponders":[{"name":"a","state":"Active"},{"name":"b","state":"Completed"}],"responders":[{"name":"b","heartbeatTime":"x"},
			{"name":"a","heartbeatTime":"2026-01-02T03:04:05Z","expectedCompletionTime":"2026-01-02T04:04:06Z"}]}}`)
		s.put(t, "pods", "a", "sidecar", `},"spec":{"containers":[{"name":"a"},{"name":"b"}],"initContainers":[{"name":"i"},{"name":"s","restartPolicy":"Always"}]},"status":{
			"containerStatuses":[{"name":"a","ready":true,"restartCount":1,"state":{"running":{}}},{"name":"b","ready":false,"restartCount":2,"state":{"waiting":{}}}],
			"initContainerStatuses":[{"name":"i","ready":true,"restartCount":4,"state":{"terminated":{"exitCode":0}}},{"name":"s","ready":true,"started":true,"restartCount":8,"state":{"running":{}}}]}}`)
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
		for statement, want := range map[string]string{
			"SELECT name, ready, restarts FROM pods ORDER BY name":                                                                             "[[bare 0/0 0] [odd 0/0 0] [sidecar 2/3 11] [starts 0/1 4]]",
			"SELECT name, ports FROM services ORDER BY name":                                                                                   "[[bare <nil>] [odd <nil>] [ports 80:30080/TCP,53/UDP]]",
			"SELECT name, printed_status, roles FROM nodes ORDER BY name":                                                                      "[[bare Unknown <nil>] [lost NotReady <nil>] [odd Unknown <nil>] [roles Ready,SchedulingDisabled Big,old,worker]]",
			`SELECT duration_seconds FROM "jobs.batch" WHERE name = 'timed'`:                                                                   "[[3601]]",
			`SELECT count(*) FROM "jobs.batch" WHERE name = 'timeless' AND coalesce(duration_seconds, 1) <> 0`:                                 "[[1]]",
			`SELECT count(*) FROM "jobs.batch" WHERE name = 'times' AND duration_seconds > 9999`:                                               "[[1]]",
			"SELECT name, first_time, last_time FROM events WHERE namespace = 'a' AND name <> 'odd' ORDER BY name":                             "[[bare <nil> <nil>] [once 2026-01-02T03:04:05.000006Z 2026-01-02T03:04:05.000006Z] [twice 2026-01-02T03:04:05Z 2026-01-02T04:04:06Z]]",
			`SELECT completed_time FROM "resourcepoolstatusrequests.resource.k8s.io" WHERE name = 'done'`:                                      "[[2026-01-02T03:04:05Z]]",
			`SELECT responder_state, responder_expected_time, responder_heartbeat_time FROM "evictions.lifecycle.k8s.io" WHERE name = 'begun'`: "[[Active 2026-01-02T04:04:06Z 2026-01-02T03:04:05Z]]",
			`SELECT name, printed_status, completions FROM "jobs.batch" WHERE name NOT LIKE 'time%' ORDER BY name`:                             "[[bare Running 0/1] [done Complete 3/3] [many Terminating 0/1 of 2] [odd Running 0/1]]",
			"SELECT name, printed_status, access_modes FROM persistentvolumes ORDER BY name":                                                   "[[bare <nil> <nil>] [going Terminating RWO,ROX,RWX,RWOP] [odd 7 <nil>]]",
			"SELECT name, printed_status, access_modes FROM persistentvolumeclaims ORDER BY name":                                              "[[bare <nil> <nil>] [bound Bound RWX] [odd 7 <nil>]]",
		} {
			if rows := s.both(t, statement, there...); fmt.Sprint(rows) != want {
				t.Errorf("%s:\n%s, want\n%s", statement, fmt.Sprint(rows), want)
			}
		}
	})
}

// Of an object that is not known, such as one that is encrypted, no computed column has a value.
func TestComputedColumnsOfUnknown(t *testing.T) {
	onViewed(t, nil, func(t *testing.T, s viewed) {
		with, null := computingSQLite, "NULL"
		if isPostgres(s.options.URL) {
			with, null = computingPostgres, "NULL::jsonb"
		}
		for name, text := range computedColumns {
			if rows := s.native(t, "SELECT "+with.expand(text)+" FROM (SELECT "+null+" AS o) AS j"); fmt.Sprint(rows) != "[[<nil>]]" {
				t.Errorf("%s is %q", name, rows)
			}
		}
	})
}
