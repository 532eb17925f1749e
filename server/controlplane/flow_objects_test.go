package controlplane

import (
	"context"
	"slices"
	"testing"
	"time"

	"golang.org/x/time/rate"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"

	"github.com/rowlock/rowlock/resources"
)

const flowSchemasPath = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"

// A client (a server of another release, for example) that reverts a repair repeatedly makes the repair run at intervals.
func TestKeepFlowsAtIntervals(t *testing.T) {
	x := newRepairs(t)
	f, err := x.p.newFlowObjects()
	if err != nil {
		t.Fatal(err)
	}
	turns, now := rate.NewLimiter(rate.Every(ensurePause), ensureBurst), time.Unix(1_700_000_000, 0)
	ensure := func(want time.Duration, code int) {
		t.Helper()
		again, err := f.ensure(t.Context(), turns, now)
		if err != nil || again.Round(time.Millisecond) != want {
			t.Errorf("again in %v, want %v; %v", again, want, err)
		}
		x.send("GET", flowSchemasPath+"/probes", "", code)
	}
	for range ensureBurst {
		x.send("DELETE", flowSchemasPath+"/probes", "", 200)
		ensure(0, 200)
		if turns.TokensAt(now) >= 1 {
			ensure(0, 200) // nothing to write
		}
	}
	x.send("DELETE", flowSchemasPath+"/probes", "", 200)
	ensure(ensurePause, 404)
	now = now.Add(ensurePause - time.Second)
	ensure(time.Second, 404)
	now = now.Add(time.Second)
	ensure(0, 200)
	now = now.Add(ensurePause)
	ensure(0, 200)
	ensure(0, 200)
}

// While repairs wait, the status of users' FlowSchemas is maintained nevertheless.
func TestKeepFlowsOfUsers(t *testing.T) {
	x := newRepairs(t)
	c := x.p.keepFlows()
	do := func() time.Duration {
		t.Helper()
		again, err := c.do(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return again
	}
	for range ensureBurst {
		x.send("DELETE", flowSchemasPath+"/probes", "", 200)
		do()
	}
	x.send("POST", flowSchemasPath, `{"metadata":{"name":"own"},"spec":{"priorityLevelConfiguration":{"name":"system"}}}`, 201)
	if again := do(); again <= 0 || again > ensurePause {
		t.Errorf("again in %v", again)
	}
	if got := x.send("GET", flowSchemasPath+"/own", "", 200); got.Get("status.conditions.0.reason").Str != "Found" {
		t.Errorf("no status is in %s", got)
	}
}

// usedFlows is a Front that remembers the names of the FlowSchemas in force.
type usedFlows struct {
	Front
	names []string
}

func (u *usedFlows) UseFlows(schemas []*flowcontrolv1.FlowSchema, levels []*flowcontrolv1.PriorityLevelConfiguration) {
	u.names = nil
	for _, s := range schemas {
		u.names = append(u.names, s.Name)
	}
	u.Front.UseFlows(schemas, levels)
}

// A policy that refuses the repair of one object stops neither the repair of the others, nor the use and the status of users' objects.
func TestKeepFlowsRefused(t *testing.T) {
	x := newRepairs(t)
	used := &usedFlows{Front: x.p.Front}
	x.p.Front = used
	c := x.p.keepFlows()
	var others []string
	for _, s := range slices.Concat(bootstrap.MandatoryFlowSchemas, bootstrap.SuggestedFlowSchemas) {
		x.send("DELETE", flowSchemasPath+"/"+s.Name, "", 200)
		if s.Name != "probes" {
			others = append(others, s.Name)
		}
	}
	x.send("POST", flowSchemasPath, `{"metadata":{"name":"first"},"spec":{"priorityLevelConfiguration":{"name":"system"}}}`, 201)
	x.send("POST", flowSchemasPath, `{"metadata":{"name":"own"},"spec":{"priorityLevelConfiguration":{"name":"system"}}}`, 201)
	x.p.Pipeline.Use(refusingNames{"probes", "first"}, nil)
	again, err := c.do(t.Context(), nil)
	if err != nil || again <= 0 || again > refusedAgain {
		t.Errorf("again in %v, %v", again, err)
	}
	x.send("GET", flowSchemasPath+"/probes", "", 404)
	for _, name := range others {
		x.send("GET", flowSchemasPath+"/"+name, "", 200)
	}
	if !slices.Contains(used.names, "own") {
		t.Errorf("in force are %q", used.names)
	}
	if got := x.send("GET", flowSchemasPath+"/own", "", 200); got.Get("status.conditions.0.reason").Str != "Found" {
		t.Errorf("no status is in %s", got)
	}
	x.p.Pipeline.Use(refusingNames{}, nil)
	if again, err := c.do(t.Context(), nil); err != nil || again != 0 {
		t.Errorf("when nothing is refused: again in %v, %v", again, err)
	}
	x.send("GET", flowSchemasPath+"/probes", "", 200)
}

// The status says that a FlowSchema is in force. One that was created or changed while the others were put into force is
// marked in the next run.
func TestMarkFlowsInForce(t *testing.T) {
	x := newRepairs(t)
	f, err := x.p.newFlowObjects()
	if err != nil {
		t.Fatal(err)
	}
	const system, other = `"spec":{"priorityLevelConfiguration":{"name":"system"}}}`, `"spec":{"priorityLevelConfiguration":{"name":"other"}}}`
	for _, name := range []string{"same", "changed", "replaced"} {
		x.send("POST", flowSchemasPath, `{"metadata":{"name":"`+name+`"},`+system, 201)
	}
	schemas, levels, err := x.p.useFlows(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	x.send("POST", flowSchemasPath, `{"metadata":{"name":"new"},`+system, 201)
	x.send("PUT", flowSchemasPath+"/changed", `{"metadata":{"name":"changed"},`+other, 200)
	x.send("DELETE", flowSchemasPath+"/replaced", "", 200)
	x.send("POST", flowSchemasPath, `{"metadata":{"name":"replaced"},`+other, 201)
	want := func(reasons map[string]string) {
		t.Helper()
		if _, err := x.p.markFlows(t.Context(), f, schemas, levels, time.Now()); err != nil {
			t.Fatal(err)
		}
		for name, reason := range reasons {
			if got := x.send("GET", flowSchemasPath+"/"+name, "", 200).Get("status.conditions.0.reason").Str; got != reason {
				t.Errorf("status of %s: %q, want %q", name, got, reason)
			}
		}
	}
	want(map[string]string{"same": "Found", "changed": "", "replaced": "", "new": ""})
	if schemas, levels, err = x.p.useFlows(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(map[string]string{"same": "Found", "changed": "NotFound", "replaced": "NotFound", "new": "Found"})
}

// A status that another client wants otherwise is not overwritten without limit: like kube-apiserver's controller, the
// server writes it six times in a minute.
func TestMarkFlowsSeldom(t *testing.T) {
	x := newRepairs(t)
	f, err := x.p.newFlowObjects()
	if err != nil {
		t.Fatal(err)
	}
	x.send("POST", flowSchemasPath, `{"metadata":{"name":"own"},"spec":{"priorityLevelConfiguration":{"name":"system"}}}`, 201)
	began := time.Now()
	mark := func(after time.Duration) (written bool, again time.Duration) {
		t.Helper()
		x.send("PUT", flowSchemasPath+"/own/status", `{"metadata":{"name":"own"},"spec":{"priorityLevelConfiguration":{"name":"system"}},"status":{"conditions":[
			{"type":"Dangling","status":"True","reason":"NotFound","lastTransitionTime":null}]}}`, 200)
		schemas, levels, err := x.p.useFlows(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if again, err = x.p.markFlows(t.Context(), f, schemas, levels, began.Add(after)); err != nil {
			t.Fatal(err)
		}
		return x.send("GET", flowSchemasPath+"/own", "", 200).Get("status.conditions.0.reason").Str == "Found", again
	}
	for i := range marksPerMinute {
		if written, again := mark(time.Duration(i) * time.Second); !written || again != 0 {
			t.Fatalf("write %d: %v, again in %v", i, written, again)
		}
	}
	if written, again := mark(10 * time.Second); written || again != 50*time.Second {
		t.Errorf("after six writes: written %v, again in %v", written, again)
	}
	if written, again := mark(time.Minute); !written || again != 0 {
		t.Errorf("a minute after the first: written %v, again in %v", written, again)
	}
}

// askingStore fails the test when an object of a type is read from the database.
type askingStore struct {
	resources.Store
	t        *testing.T
	resource string
}

func (s *askingStore) Get(ctx context.Context, key resources.Key, at resources.At) (*resources.Object, error) {
	if key.Resource == s.resource && at.Match == resources.MostRecent {
		s.t.Errorf("%s is asked for", key)
	}
	return s.Store.Get(ctx, key, at)
}

// A start that finds all objects right does not read each FlowSchema from the database.
func TestBootstrapFlowsAgain(t *testing.T) {
	x := newRepairs(t)
	store := &askingStore{x.store, t, flowsResource}
	x.p.Store, x.p.Pipeline = store, resources.NewPipeline(store, resources.PipelineOptions{})
	if err := x.p.Bootstrap(t.Context()); err != nil {
		t.Error(err)
	}
}
