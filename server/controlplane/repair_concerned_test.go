package controlplane

import (
	"strings"
	"testing"
)

// A Service is repaired whose address is taken by the IPAddress of another Service, though no event names it.
func TestRepairUnnamedServices(t *testing.T) {
	for how, parent := range map[string]string{
		"of no Service":      `{"resource":"gateways","namespace":"default","name":"g","group":"example.com"}`,
		"of another Service": `{"resource":"services","namespace":"default","name":"none"}`,
	} {
		t.Run(how, func(t *testing.T) {
			x := newRepairs(t)
			ip := x.send("POST", servicesPath, `{"metadata":{"name":"a"},"spec":{"ports":[{"port":80}]}}`, 201).Get("spec.clusterIP").Str
			expect := func(since int64) {
				t.Helper()
				x.repair(since)
				if got := x.send("GET", addressPath+"/"+ip, "", 200).Get("spec.parentRef.name").Str; got != "a" {
					t.Errorf("the address is of %s", got)
				}
			}
			x.send("DELETE", addressPath+"/"+ip, "", 200)
			since := x.revision()
			x.send("POST", addressPath, addressOf(ip, parent, `{}`), 201)
			expect(since)
			x.send("DELETE", addressPath+"/"+ip, "", 200)
			x.send("POST", addressPath, addressOf(ip, parent, `{}`), 201)
			since = x.revision()
			x.send("DELETE", addressPath+"/"+ip, "", 200)
			expect(since)
		})
	}
}

// A deleted Service takes its IPAddress with it: no check of all objects follows.
func TestRepairGoneServices(t *testing.T) {
	x := newRepairs(t)
	x.send("POST", servicesPath, `{"metadata":{"name":"a"},"spec":{"ports":[{"port":80}]}}`, 201)
	x.repair(0)
	since := x.revision()
	x.send("DELETE", servicesPath+"/a", "", 200)
	x.repair(since)
	if x.looks != 1 {
		t.Errorf("everything was looked at: %d rounds", x.looks)
	}
}

// A Service outside all ranges is reported at intervals, and repaired when its range is back.
func TestRepairOutOfRange(t *testing.T) {
	const ranges = "/apis/networking.k8s.io/v1/servicecidrs"
	const more = `{"metadata":{"name":"more"},"spec":{"cidrs":["10.50.0.0/24"]}}`
	const path = "/apis/events.k8s.io/v1/events?fieldSelector=reason%3DClusterIPOutOfRange"
	x := newRepairs(t)
	x.send("POST", ranges, more, 201)
	x.send("PATCH", ranges+"/more/status", `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"","message":"","lastTransitionTime":"2026-01-02T03:04:05Z"}]}}`, 200)
	x.send("POST", servicesPath, `{"metadata":{"name":"a"},"spec":{"clusterIP":"10.50.0.5","ports":[{"port":80}]}}`, 201)
	x.repair(0)
	since := x.revision()
	x.send("DELETE", ranges+"/more", "", 200)
	x.repair(since)
	x.reported("ClusterIPOutOfRange", "Cluster IP [IPv4]: 10.50.0.5 is not within any configured Service CIDR; please recreate service")
	x.send("DELETE", addressPath+"/10.50.0.5", "", 200)
	x.repair(0)
	x.repair(0)
	x.send("GET", addressPath+"/10.50.0.5", "", 404)
	x.reported("ClusterIPOutOfRange", "Cluster IP [IPv4]: 10.50.0.5 is not within any configured Service CIDR; please recreate service")
	if got := x.send("GET", path, "", 200).Get("items.0.series.count").Int(); got != 2 {
		t.Errorf("found again, it is a series of %d", got)
	}
	x.now = x.now.Add(repeatAfter)
	x.repair(0)
	if got := x.send("GET", path, "", 200).Get("items.#(series.count==3).reason").Str; got != "ClusterIPOutOfRange" {
		t.Error("what was counted since was not written")
	}
	if got := x.send("GET", path, "", 200).Get("items.#").Int(); got != 2 {
		t.Errorf("after a while, there are %d Events", got)
	}
	x.send("PATCH", servicesPath+"/a", `{"metadata":{"labels":{"changed":"yes"}}}`, 200)
	x.repair(0)
	if got := x.send("GET", path, "", 200).Get("items.#").Int(); got != 3 {
		t.Errorf("of the Service as it is now, there are %d Events", got)
	}
	since = x.revision()
	x.send("POST", ranges, strings.ReplaceAll(more, "more", "again"), 201)
	x.repair(since)
	x.send("GET", addressPath+"/10.50.0.5", "", 200)
}
