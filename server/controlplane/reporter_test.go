package controlplane

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/admission"

	"github.com/rowlock/rowlock/resources"
)

const outOfRange = "/apis/events.k8s.io/v1/events?fieldSelector=reason%3DPortOutOfRange"

// standing has a Service with a node port outside of the range, which the port repair reports whenever it checks. The time is the test's.
func standing(t *testing.T) (*repairs, *portRepair) {
	t.Helper()
	x := newRepairs(t)
	x.send("POST", servicesPath, nodePortService("a", 30080), 201)
	r := x.p.newPortRepair(x.network(6443))
	r.ports.Base, r.ports.Size = 30090, 20
	r.report.now = func() time.Time { return x.now }
	return x, r
}

// turns runs the chore when it is due, for a while, and returns how often that was.
func (x *repairs) turns(r *portRepair, events []*resources.Event, during time.Duration) (n int) {
	x.Helper()
	for end := x.now.Add(during); ; n++ {
		again, err := r.report.after(r.do)(x.Context(), events)
		if err != nil {
			x.Fatal(err)
		}
		if again == 0 || x.now.Add(again).After(end) {
			x.now = end
			return n + 1
		}
		x.now, events = x.now.Add(again), []*resources.Event{}
	}
}

// What stands is checked again without an event, and its Event is written again before it would be removed. When it is over, the last count is
// written, and nothing is checked any more.
func TestReportStands(t *testing.T) {
	x, r := standing(t)
	if n := x.turns(r, nil, time.Hour); n != 21 {
		t.Errorf("within an hour, everything was checked %d times", n)
	}
	// It was written at first, three minutes later, and half an hour after that, when it had been found eleven times.
	if got := x.send("GET", outOfRange, "", 200).Get("items.#.series.count").Raw; got != "[11]" {
		t.Errorf("after an hour, the Events are series of %s", got)
	}
	r.ports.Base = 30080
	if n := x.turns(r, []*resources.Event{}, time.Hour); n != 3 {
		t.Errorf("when it was over, everything was checked %d times", n)
	}
	if got := x.send("GET", outOfRange, "", 200).Get("items.#.series.count").Raw; got != "[21]" {
		t.Errorf("when it is over, the Events are series of %s", got)
	}
	if len(r.report.said) != 0 {
		t.Error("reports are kept")
	}
}

// Changes of other objects do not postpone the check.
func TestReportStandsAmongChanges(t *testing.T) {
	x, r := standing(t)
	x.turns(r, nil, time.Minute)
	for _, want := range []time.Duration{2 * time.Minute, time.Minute, checkAfter} {
		if again, err := r.report.after(r.do)(t.Context(), []*resources.Event{}); err != nil || again != want {
			t.Fatalf("again in %v, want %v: %v", again, want, err)
		}
		x.now = x.now.Add(time.Minute)
	}
	if got := x.send("GET", outOfRange, "", 200).Get("items.#.series.count").Raw; got != "[2]" {
		t.Errorf("the Events are series of %s", got)
	}
}

// refusingEvents is an admission plugin that refuses every Event.
type refusingEvents struct{ refusingNames }

func (refusingEvents) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().Resource == "events" {
		return errors.New("no Events")
	}
	return nil
}

// An Event that is gone when its cause is found again is created again, and so is one that could not be written.
func TestReportIsWrittenAgain(t *testing.T) {
	for name, lose := range map[string]func(*repairs, *portRepair){
		"deleted": func(x *repairs, r *portRepair) {
			x.repairPorts(r, nil)
			x.send("DELETE", "/api/v1/namespaces/default/events", "", 200)
		},
		"refused": func(x *repairs, r *portRepair) {
			x.p.Pipeline.Use(refusingEvents{}, nil)
			x.repairPorts(r, nil)
			x.p.Pipeline.Use(refusingNames{}, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			x, r := standing(t)
			lose(x, r)
			if got := x.send("GET", outOfRange, "", 200).Get("items.#").Int(); got != 0 {
				t.Fatalf("there are %d Events", got)
			}
			x.repairPorts(r, nil)
			x.reportedBy(portRepairer, "PortOutOfRange", "Port 30080 is not within the port range 30090-30109; please recreate service")
			if got := x.send("GET", outOfRange, "", 200).Get("items.#.series.count").Raw; got != "[2]" {
				t.Errorf("the Events are series of %s", got)
			}
		})
	}
}
