package controllers

import (
	"log/slog"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// TestEndedLately forgets a namespace whose late objects have come long ago, so that an object that is created in it on purpose stays.
func TestEndedLately(t *testing.T) {
	c := newNamespaces(Config{})
	c.ended["long ago"], c.ended["now"] = time.Now().Add(-stragglersAfter-time.Second), time.Now()
	if c.endedLately("long ago") || !c.endedLately("now") || c.endedLately("never") || len(c.ended) != 1 {
		t.Errorf("kept: %v", c.ended)
	}
}

// TestOwnStatusIsNoWork ignores changes of the status of a namespace that is being deleted: the controller writes it after each attempt, and would
// otherwise try again at once.
func TestOwnStatusIsNoWork(t *testing.T) {
	c := newNamespaces(Config{Logger: slog.New(slog.DiscardHandler)})
	c.forget()
	state := func(spec, status string) *resources.Object {
		return &resources.Object{Key: resources.Key{Resource: namespacesResource, Name: "doomed"},
			Data: []byte(`{"metadata":{"name":"doomed","deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":` + spec + `,"status":` + status + `}`)}
	}
	const both, one = `{"finalizers":["kubernetes","example.com/other"]}`, `{"finalizers":["kubernetes"]}`
	for _, step := range []struct {
		what       string
		prev, next *resources.Object
		queued     bool
	}{
		{"the deletion", state(both, `{}`), state(both, `{"phase":"Terminating"}`), true},
		{"its own status", state(both, `{"phase":"Terminating"}`), state(both, `{"conditions":[{}]}`), false},
		{"a finalizer that goes", state(both, `{"conditions":[{}]}`), state(one, `{"conditions":[{}]}`), true},
	} {
		c.observe(&resources.Event{Op: resources.Update, Object: step.next, Prev: step.prev})
		if queued := c.queue.Len() == 1; queued != step.queued {
			t.Errorf("after %s, queued is %v", step.what, queued)
		}
		if c.queue.Len() > 0 {
			name, _ := c.queue.Get()
			c.queue.Done(name)
		}
	}
}
