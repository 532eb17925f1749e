package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/rowlock/rowlock/resources"
)

var writeTests = map[string]func(*suite){
	"CreateThenGet":       testCreateThenGet,
	"CreateExisting":      testCreateExisting,
	"Update":              testUpdate,
	"Delete":              testDelete,
	"MissingObject":       testMissingObject,
	"StaleWrite":          testStaleWrite,
	"DeletedAndMadeAnew":  testDeletedAndMadeAnew,
	"RevisionPerObject":   testRevisionPerObject,
	"TypesAreApart":       testTypesAreApart,
	"ResultIsWhatIsRead":  testResultIsWhatIsRead,
	"WriteOfUnknownOp":    testWriteOfUnknownOp,
	"GuaranteedUpdate":    testGuaranteedUpdate,
	"CancelledBeforehand": testCancelledBeforehand,
	"RefusedAmongOthers":  testRefusedAmongOthers,
	"LongestKey":          testLongestKey,
}

// The writes of a Commit are visible to every read at MostRecent that starts after the Commit returned.
func testCreateThenGet(s *suite) {
	for _, key := range []resources.Key{pod("ns", "a"), node("n")} {
		made := s.commitOne(create(key, "new"))
		for _, at := range []resources.At{current, any_, {Match: resources.NotOlderThan, Revision: made.Revision}} {
			got, err := s.store.Get(s.ctx, key, at)
			if err != nil {
				s.Fatalf("get %s at %v: %v", key, at, err)
			}
			s.want("object", s.describe(made), s.describe(got))
		}
	}
}

// ErrExists: a Create's key exists.
func testCreateExisting(s *suite) {
	made := s.commitOne(create(pod("ns", "a"), "first"))
	_, err := s.store.Commit(s.ctx, create(made.Key, "second"))
	s.wantError("second create", resources.ErrExists, err)
	s.want("pods", []string{s.describe(made)}, s.contents(s.snapshot("pods", current)))
}

// Update replaces an object.
func testUpdate(s *suite) {
	made := s.commitOne(create(pod("ns", "a"), "old"))
	changed := s.commitOne(update(made, "new"))
	s.want("state", "new", s.stateOf(changed))
	s.want("revision", made.Revision+1, changed.Revision)
	s.want("pods", []string{s.describe(changed)}, s.contents(s.snapshot("pods", current)))
	s.want("the object of before, which is immutable", "old", s.stateOf(made))
}

// For a Delete, the result is the last state of the object with the revision of its deletion.
func testDelete(s *suite) {
	made := s.commitOne(create(pod("ns", "a"), "last"))
	gone := s.commitOne(remove(made))
	s.want("result", "last", s.stateOf(gone))
	s.want("revision", made.Revision+1, gone.Revision)
	_, err := s.store.Get(s.ctx, made.Key, current)
	s.wantError("get of a deleted object", resources.ErrNotFound, err)
}

// ErrNotFound: an Update's or Delete's key does not exist.
func testMissingObject(s *suite) {
	ghost := &resources.Object{Key: pod("ns", "ghost"), Revision: 1}
	_, err := s.store.Commit(s.ctx, update(ghost, "x"))
	s.wantError("update", resources.ErrNotFound, err)
	_, err = s.store.Commit(s.ctx, remove(ghost))
	s.wantError("delete", resources.ErrNotFound, err)
	_, err = s.store.Get(s.ctx, ghost.Key, current)
	s.wantError("get", resources.ErrNotFound, err)
}

// *ConflictError: the object is at another revision than the write was computed from. Current is the object as it is
// now.
func testStaleWrite(s *suite) {
	old := s.commitOne(create(pod("ns", "a"), "one"))
	now := s.commitOne(update(old, "two"))
	for what, w := range map[string]resources.Write{"update": update(old, "three"), "delete": remove(old)} {
		_, err := s.store.Commit(s.ctx, w)
		var conflict *resources.ConflictError
		if !errors.As(err, &conflict) {
			s.Fatalf("stale %s: got %v, want a ConflictError", what, err)
		}
		s.want("key", old.Key, conflict.Key)
		s.want("current object", s.describe(now), s.describe(conflict.Current))
	}
}

// A write is conditional on the revision it was computed from: an object of the same name is not the same object.
func testDeletedAndMadeAnew(s *suite) {
	first := s.commitOne(create(pod("ns", "a"), "first"))
	s.commitOne(remove(first))
	second := s.commitOne(create(first.Key, "second"))
	_, err := s.store.Commit(s.ctx, update(first, "third"))
	var conflict *resources.ConflictError
	if !errors.As(err, &conflict) {
		s.Fatalf("update from the first object: got %v, want a ConflictError", err)
	}
	s.want("current object", s.describe(second), s.describe(conflict.Current))
}

// One counter for the whole store is raised by exactly one per object written; a write that fails does not raise it.
func testRevisionPerObject(s *suite) {
	at := s.snapshot("pods", current).Revision()
	a := s.commitOne(create(pod("ns", "a"), "x"))
	if _, err := s.store.Commit(s.ctx, create(pod("ns", "a"), "x")); err == nil {
		s.Fatal("created twice")
	}
	n := s.commitOne(create(node("n"), "x"))
	b := s.commitOne(update(a, "y"))
	c := s.commitOne(remove(b))
	s.want("revisions", []int64{at + 1, at + 2, at + 3, at + 4}, []int64{a.Revision, n.Revision, b.Revision, c.Revision})
	s.want("revision of an untouched type", at+4, s.snapshot("secrets", current).Revision())
}

// Key names one object: its resource type, its namespace, its name.
func testTypesAreApart(s *suite) {
	a := s.commitOne(create(pod("ns", "a"), "pod"))
	b := s.commitOne(create(resources.Key{Resource: "pods.metrics.k8s.io", Namespace: "ns", Name: "a"}, "metrics"))
	c := s.commitOne(create(pod("other", "a"), "other"))
	s.want("pods", []string{s.describe(a), s.describe(c)}, s.contents(s.snapshot("pods", current)))
	s.want("the other type", []string{s.describe(b)}, s.contents(s.snapshot("pods.metrics.k8s.io", current)))
}

// An object is immutable and shared: a read returns what the Commit returned, without a copy.
func testResultIsWhatIsRead(s *suite) {
	made := s.commitOne(create(pod("ns", "a"), "x"))
	got, err := s.store.Get(s.ctx, made.Key, any_)
	if err != nil || got != made {
		s.Errorf("get returned %p, %v and commit %p", got, err, made)
	}
	if snap := s.snapshot("pods", any_).Get("ns", "a"); snap != made {
		s.Errorf("the snapshot has %p and commit returned %p", snap, made)
	}
}

// Op is Create, Update or Delete.
func testWriteOfUnknownOp(s *suite) {
	w := create(pod("ns", "a"), "x")
	w.Op = 0
	if _, err := s.store.Commit(s.ctx, w); err == nil {
		s.Error("a write of no operation was accepted")
	}
	s.want("pods", []string{}, s.contents(s.snapshot("pods", current)))
}

// GuaranteedUpdate computes a change from the current object and commits it.
func testGuaranteedUpdate(s *suite) {
	key := pod("ns", "a")
	states := []string{}
	step := func(current *resources.Object) ([]resources.Write, error) {
		if current == nil {
			return []resources.Write{create(key, "made")}, nil
		}
		states = append(states, s.stateOf(current))
		return []resources.Write{update(current, "changed")}, nil
	}
	for range 2 {
		if _, err := resources.GuaranteedUpdate(s.ctx, s.store, key, step); err != nil {
			s.Fatal(err)
		}
	}
	s.want("states seen", []string{"made"}, states)
	s.want("state", "changed", s.stateOf(s.snapshot("pods", current).Get("ns", "a")))
}

// Errors: the context's. A Commit whose context has ended before it begins writes nothing.
func testCancelledBeforehand(s *suite) {
	ctx, cancel := cancelled(s.ctx)
	defer cancel()
	if _, err := s.store.Commit(ctx, create(pod("ns", "a"), "x")); err == nil {
		s.Error("commit with a cancelled context succeeded")
	}
	if _, err := s.store.Get(ctx, pod("ns", "a"), current); err == nil || errors.Is(err, resources.ErrNotFound) {
		s.Errorf("get with a cancelled context: %v", err)
	}
	s.want("pods", []string{}, s.contents(s.snapshot("pods", current)))
}

// A Commit that is refused, for a key that is not Storable or data that is not text, does not affect any other.
func testRefusedAmongOthers(s *suite) {
	const writers, each = 4, 25
	bad := []resources.Write{create(node("a\x00b"), "x"), create(pod("n\x00s", "a"), "x"), create(node("\xff"), "x"), create(pod("ns\xc3", "a"), "x"),
		create(node(incompressible(resources.MaxKeyBytes)), "x"), create(node("nul"), "x"), create(node("latin"), "x")}
	bad[len(bad)-2].Draft.Data = []byte("{\"metadata\":{\"resourceVersion\":\"0\"},\"state\":\"\x00\"}")
	bad[len(bad)-1].Draft.Data = []byte("{\"metadata\":{\"resourceVersion\":\"0\"},\"state\":\"\xe9\"}")
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			for n := range each {
				if _, err := s.store.Commit(s.ctx, create(pod("ns", fmt.Sprintf("%d-%d", i, n)), "new")); err != nil {
					s.Errorf("beside what is refused: %v", err)
				}
			}
		})
	}
	for i := range bad {
		all.Go(func() {
			for range each {
				_, err := s.store.Commit(s.ctx, bad[i])
				s.wantError(fmt.Sprintf("%q", bad[i].Key), resources.ErrRefused, err)
			}
		})
	}
	all.Wait()
	s.want("pods", writers*each, s.snapshot("pods", current).Count("", ""))
	s.want("nodes", 0, s.snapshot("nodes", current).Count("", ""))
}

// A key of MaxKeyBytes can be stored, whatever its parts, and its object read and watched.
func testLongestKey(s *suite) {
	keys := []resources.Key{node(""), pod(incompressible(63), ""), pod(incompressible(1000), "")}
	for _, key := range keys {
		key.Name = incompressible(resources.MaxKeyBytes - len(key.Resource) - len(key.Namespace))
		made := s.commitOne(create(key, "old"))
		changed := s.commitOne(update(made, "new"))
		s.want("events", []string{s.describeEvent(&resources.Event{Op: resources.Update, Revision: changed.Revision, Object: changed, Prev: made})},
			s.events(s.watch(resources.WatchOptions{Resource: key.Resource, After: made.Revision}), 1))
		s.commitOne(remove(changed))
		key.Name += "x"
		_, err := s.store.Commit(s.ctx, create(key, "longer"))
		s.wantError("one byte more", resources.ErrRefused, err)
	}
	s.commitOne(create(node(strings.Repeat("a", 253)), "usual"))
}

// incompressible is a name of the given length that no database can compress.
func incompressible(bytes int) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-:"
	random := rand.New(rand.NewPCG(uint64(bytes), 1))
	name := make([]byte, bytes)
	for i := range name {
		name[i] = letters[random.IntN(len(letters))]
	}
	return string(name)
}
