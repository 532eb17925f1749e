// Package storetest is the conformance suite of resources.Store: the contract as tests. Every implementation runs
// all of it, on a fresh store per test. The comment of a test is the sentence of the contract that it checks.
//
//	storetest.go      Run, and the Harness that an implementation provides
//	write.go          creates, updates, deletes, conflicts; transaction.go, several objects in one commit;
//	                  expect.go, commits that depend on objects which they do not write
//	read.go           get, snapshots, "most recent"; past.go, older revisions
//	watch.go          order, cursors, wake-ups; many_watchers.go, the same with thousands of them; before.go, objects before a change
//	sent.go           objects whose stored bytes differ from the shown ones
//	history.go        pruning and 410; lifetime.go, objects that expire
//	end.go            closing and starting again
//	model.go          random operations, compared with a model in memory
package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/rowlock/rowlock/resources"
)

// Harness is a fresh store with the operations of a test on it. The store keeps little of its history in memory, so that tests reach
// the database as well. The test's cleanup ends everything.
type Harness struct {
	Store resources.Store
	// Advance moves the store's clock. History is kept for HistoryAge of that clock.
	Advance func(time.Duration)
	// Prune makes every change so far too old, and returns when it has left history.
	Prune func(t *testing.T)
	// PruneDue returns when everything that is too old has left history.
	PruneDue func(t *testing.T)
	// Restart closes the store and opens it again.
	Restart func(t *testing.T) resources.Store
	// Crash returns a store opened on the data that a sudden end of the process would leave behind now.
	Crash func(t *testing.T) resources.Store
	// Peer opens another server on the database of the store. Nil: not possible.
	Peer func(t *testing.T) resources.Store
	// Close shuts the store down.
	Close func(t *testing.T)
}

// HistoryAge is the age of history that a Harness gives its store.
const HistoryAge = 5 * time.Minute

// patience ends a test that would wait for ever.
const patience = 3 * time.Minute

// Run runs the suite.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for _, group := range []map[string]func(*suite){
		writeTests, transactionTests, expectTests, readTests, changedTests, pastTests, watchTests, manyWatchersTests, historyTests, lifetimeTests, endTests, modelTests,
	} {
		for name, test := range group {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				h := open(t)
				test(&suite{T: t, ctx: ctx, h: h, store: h.Store})
			})
		}
	}
}

// suite is one test with its store, and steps that fail the test if they fail.
type suite struct {
	*testing.T
	ctx   context.Context
	h     Harness
	store resources.Store
}

var (
	current = resources.At{Match: resources.MostRecent}
	any_    = resources.At{Match: resources.Any}
)

func exactly(revision int64) resources.At {
	return resources.At{Match: resources.Exact, Revision: revision}
}

func pod(namespace, name string) resources.Key {
	return resources.Key{Resource: "pods", Namespace: namespace, Name: name}
}

func node(name string) resources.Key { return resources.Key{Resource: "nodes", Name: name} }

// draftOf encodes an object whose state is one word. The word is its label "state" and its field "status.state", too.
func draftOf(key resources.Key, state string) resources.Draft {
	data := []byte(fmt.Sprintf(`{"kind":"Thing","apiVersion":"v1","metadata":{"name":%q,"namespace":%q,`+
		`"resourceVersion":"0","labels":{"state":%q}},"state":%q}`, key.Name, key.Namespace, state, state))
	d, _ := resources.DraftOf(data)
	d.Labels, d.Fields = labels.Set{"state": state}, fields.Set{"status.state": state}
	return d
}

func create(key resources.Key, state string) resources.Write {
	return resources.Write{Op: resources.Create, Key: key, Draft: draftOf(key, state)}
}

func update(o *resources.Object, state string) resources.Write {
	return resources.Write{Op: resources.Update, Key: o.Key, From: o.Revision, Draft: draftOf(o.Key, state)}
}

func remove(o *resources.Object) resources.Write {
	return resources.Write{Op: resources.Delete, Key: o.Key, From: o.Revision}
}

// stateOf returns the word that an object was made from, after checking that the object is consistent.
func (s *suite) stateOf(o *resources.Object) string {
	s.Helper()
	var got struct {
		Metadata struct {
			Name, Namespace, ResourceVersion string
			Labels                           labels.Set
		}
		State string
	}
	if err := json.Unmarshal(o.Data, &got); err != nil {
		s.Fatalf("%s is not JSON: %v", o.Key, err)
	}
	if got.Metadata.Name != o.Name || got.Metadata.Namespace != o.Namespace {
		s.Errorf("%s holds the data of %s/%s", o.Key, got.Metadata.Namespace, got.Metadata.Name)
	}
	if want := resources.FormatRevision(o.Revision); got.Metadata.ResourceVersion != want {
		s.Errorf("%s has resourceVersion %s in its data and revision %s", o.Key, got.Metadata.ResourceVersion, want)
	}
	if diff := cmp.Diff(labels.Set{"state": got.State}, o.Labels); diff != "" {
		s.Errorf("labels of %s (-want +got):\n%s", o.Key, diff)
	}
	if diff := cmp.Diff(fields.Set{"status.state": got.State}, o.Fields); diff != "" {
		s.Errorf("fields of %s (-want +got):\n%s", o.Key, diff)
	}
	return got.State
}

// commit commits writes that must succeed.
func (s *suite) commit(writes ...resources.Write) []*resources.Object {
	s.Helper()
	objects, err := s.store.Commit(s.ctx, writes...)
	if err != nil {
		s.Fatalf("commit: %v", err)
	}
	if len(objects) != len(writes) {
		s.Fatalf("commit of %d writes returned %d objects", len(writes), len(objects))
	}
	return objects
}

func (s *suite) commitOne(w resources.Write) *resources.Object {
	s.Helper()
	return s.commit(w)[0]
}

func (s *suite) snapshot(resource string, at resources.At) resources.Snapshot {
	s.Helper()
	snap, err := s.store.Snapshot(s.ctx, resource, at)
	if err != nil {
		s.Fatalf("snapshot of %s at %v: %v", resource, at, err)
	}
	return snap
}

// contents lists a snapshot as path=state@revision.
func (s *suite) contents(snap resources.Snapshot) []string {
	s.Helper()
	out := []string{}
	snap.Ascend("", "", func(o *resources.Object) bool {
		out = append(out, s.describe(o))
		return true
	})
	return out
}

func (s *suite) describe(o *resources.Object) string {
	s.Helper()
	if o == nil {
		return "none"
	}
	return fmt.Sprintf("%s=%s@%d", o.Path(), s.stateOf(o), o.Revision)
}

// describeEvent is an event as text: "update ns/a=new@7 from ns/a=old@5".
func (s *suite) describeEvent(e *resources.Event) string {
	s.Helper()
	if e.Object.Revision != e.Revision {
		s.Errorf("event %d shows the object at revision %d", e.Revision, e.Object.Revision)
	}
	op := map[resources.Op]string{resources.Create: "create", resources.Update: "update", resources.Delete: "delete"}[e.Op]
	out := op + " " + s.describe(e.Object)
	if e.Prev != nil {
		out += " from " + s.describe(e.Prev)
	}
	return out
}

func (s *suite) watch(opts resources.WatchOptions) resources.Watch {
	s.Helper()
	w, err := s.store.Watch(s.ctx, opts)
	if err != nil {
		s.Fatalf("watch %+v: %v", opts, err)
	}
	s.Cleanup(w.Close)
	return w
}

// events waits for n events of a watch.
func (s *suite) events(w resources.Watch, n int) []string {
	s.Helper()
	out := []string{}
	for len(out) < n {
		events, _, err := w.Next(s.ctx, n-len(out))
		if err != nil {
			s.Fatalf("next, after %d of %d events: %v", len(out), n, err)
		}
		for _, e := range events {
			out = append(out, s.describeEvent(e))
		}
		if len(events) > 0 {
			continue
		}
		select {
		case <-w.Ready():
		case <-s.ctx.Done():
			s.Fatalf("only %d of %d events came: %s", len(out), n, strings.Join(out, "; "))
		}
	}
	return out
}

// quiet checks that a watch has nothing to deliver, and returns its position.
func (s *suite) quiet(w resources.Watch) int64 {
	s.Helper()
	events, revision, err := w.Next(s.ctx, 10)
	if err != nil {
		s.Fatalf("next: %v", err)
	}
	if len(events) > 0 {
		s.Errorf("unexpected %s", s.describeEvent(events[0]))
	}
	return revision
}

func (s *suite) want(what string, want, got any) {
	s.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func (s *suite) wantError(what string, want, got error) {
	s.Helper()
	if !errors.Is(got, want) {
		s.Errorf("%s: got error %v, want %v", what, got, want)
	}
}

func (s *suite) wantExpired(what string, err error) {
	s.Helper()
	var expired *resources.ExpiredError
	if !errors.As(err, &expired) {
		s.Errorf("%s: got error %v, want an ExpiredError", what, err)
	}
}
