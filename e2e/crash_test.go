package e2e

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/rowlock/rowlock/e2e/harness"
)

const (
	crashRounds  = 3
	crashWriters = 16
	// crashAfter is the number of writes that a round acknowledges before the server is killed.
	crashAfter = 400
	// deleted is the state of a deleted object; other states count its updates.
	deleted = -1
	// lastUpdate is the number of updates after which the writers delete an object.
	lastUpdate = 3
)

// TestCrash kills the server with SIGKILL during writes, again and again. Every acknowledged write is there afterwards, every other happened once or
// not at all, revisions only grow, and a resumed watch and a resumed informer see every change once.
func TestCrash(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	port, err := harness.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	// The test owns all ConfigMaps.
	options := harness.RowlockOptions{DataDir: t.TempDir(), Port: port, Args: []string{"--controllers=*,-root-ca-certificate-publisher-controller"}}
	server := startServer(t, options)
	client := clientFor(t, server)
	configMaps := client.CoreV1().ConfigMaps("default")
	follower := follow(ctx, t, configMaps)
	informer := inform(ctx, t, server)
	log := &writeLog{objects: map[string]*written{}}
	var highest int64
	for round := range crashRounds {
		writeUntilKilled(ctx, t, round, server, log)
		server = startServer(t, options)
		highest = log.check(ctx, t, configMaps, highest)
	}
	end, err := configMaps.Create(ctx, configMap("end", "0"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := revision(t, end.ResourceVersion); got <= highest {
		t.Errorf("revision %d after %d", got, highest)
	}
	follower.awaitEnd(ctx, t)
	follower.check(ctx, t, configMaps, log)
	informer.check(ctx, t, configMaps, end.ResourceVersion, 0)
}

// writeLog is the writers' knowledge. After a round only the test reads its objects.
type writeLog struct {
	mu      sync.Mutex
	objects map[string]*written
}

// written is a writer's knowledge of one object.
type written struct {
	state     int   // of the last acknowledged write
	revision  int64 // of the last acknowledged write that returned one
	revisions []int64
	pending   bool  // whether a further write was sent without an answer
	refused   error // an unexpected refusal
	created   bool
}

// next is the state after the next write.
func (w *written) next() int {
	switch {
	case !w.created:
		return 0
	case w.state == lastUpdate:
		return deleted
	default:
		return w.state + 1
	}
}

// writeUntilKilled lets writers work and kills the server once enough of their writes are acknowledged.
func writeUntilKilled(ctx context.Context, t *testing.T, round int, server *harness.Server, log *writeLog) {
	t.Helper()
	client := clientFor(t, server).CoreV1().ConfigMaps("default")
	var acknowledged atomic.Int64
	enough := make(chan struct{})
	var writers sync.WaitGroup
	for w := range crashWriters {
		writers.Go(func() {
			for i := 0; ; i++ {
				name := fmt.Sprintf("crash-%d-%d-%d", round, w, i)
				object := &written{}
				log.mu.Lock()
				log.objects[name] = object
				log.mu.Unlock()
				for object.state != deleted {
					if !object.write(ctx, client, name) {
						return
					}
					if acknowledged.Add(1) == crashAfter {
						close(enough)
					}
				}
			}
		})
	}
	select {
	case <-enough:
	case <-ctx.Done():
		t.Error("the writers do not come forward")
	}
	server.Kill()
	writers.Wait()
}

// write does the next write of an object and returns whether it was acknowledged.
func (w *written) write(ctx context.Context, client typedcorev1.ConfigMapInterface, name string) bool {
	next := w.next()
	w.pending = true
	var result *corev1.ConfigMap
	var err error
	switch next {
	case deleted:
		err = client.Delete(ctx, name, metav1.DeleteOptions{})
	case 0:
		result, err = client.Create(ctx, configMap(name, "0"), metav1.CreateOptions{})
	default:
		object := configMap(name, strconv.Itoa(next))
		object.ResourceVersion = strconv.FormatInt(w.revision, 10)
		result, err = client.Update(ctx, object, metav1.UpdateOptions{})
	}
	if err != nil {
		if status := apierrors.APIStatus(nil); errors.As(err, &status) {
			w.refused = err
		}
		return false
	}
	w.created, w.pending, w.state = true, false, next
	if result != nil {
		w.revision, _ = strconv.ParseInt(result.ResourceVersion, 10, 64) // check compares it with what a watch sees
		w.revisions = append(w.revisions, w.revision)
	}
	return true
}

// check compares the server's objects with the writers' knowledge, and returns the revision of the server, which has to be above all that it ever
// gave.
func (l *writeLog) check(ctx context.Context, t *testing.T, client typedcorev1.ConfigMapInterface, highest int64) int64 {
	t.Helper()
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]corev1.ConfigMap{}
	for _, object := range list.Items {
		found[object.Name] = object
	}
	for name, w := range l.objects {
		if w.refused != nil {
			t.Errorf("%s: %v", name, w.refused)
		}
		object, exists := found[name]
		state := deleted
		if exists {
			state, _ = strconv.Atoi(object.Data["n"])
		}
		known := w.created && state == w.state || !w.created && !exists
		if !known && !(w.pending && state == w.next()) {
			t.Errorf("%s is in state %d: created %t, acknowledged %d, a write pending %t", name, state, w.created, w.state, w.pending)
		}
		highest = max(highest, w.revision)
	}
	got := revision(t, list.ResourceVersion)
	if got < highest {
		t.Errorf("the server is at revision %d, and has given %d", got, highest)
	}
	return got
}

// follower is a watch that resumes whenever it breaks, and never lists again.
type follower struct {
	watch  *watchtools.RetryWatcher
	events []watch.Event
	ended  chan struct{}
}

func follow(ctx context.Context, t *testing.T, client typedcorev1.ConfigMapInterface) *follower {
	t.Helper()
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return client.Watch(ctx, o) },
	})
	if err != nil {
		t.Fatal(err)
	}
	f := &follower{watch: w, ended: make(chan struct{})}
	go func() {
		defer close(f.ended)
		for event := range w.ResultChan() {
			f.events = append(f.events, event)
			if object, ok := event.Object.(*corev1.ConfigMap); !ok || object.Name == "end" {
				return
			}
		}
	}()
	t.Cleanup(w.Stop)
	return f
}

// awaitEnd waits for the event of the object "end", or of an error.
func (f *follower) awaitEnd(ctx context.Context, t *testing.T) {
	t.Helper()
	select {
	case <-f.ended:
	case <-ctx.Done():
		t.Fatal("the watch does not come to the end")
	}
}

// check checks all events: of each object all states in their order, each once; of each acknowledged write its revision; and growing revisions over
// all.
func (f *follower) check(ctx context.Context, t *testing.T, client typedcorev1.ConfigMapInterface, log *writeLog) {
	t.Helper()
	var last int64
	states := map[string]int{}
	byRevision := map[int64]string{}
	for _, event := range f.events {
		object, ok := event.Object.(*corev1.ConfigMap)
		if !ok {
			t.Fatalf("%s: %v", event.Type, apierrors.FromObject(event.Object))
		}
		r := revision(t, object.ResourceVersion)
		if r <= last {
			t.Errorf("revision %d of %s after %d", r, object.Name, last)
		}
		last, byRevision[r] = r, object.Name
		f.checkState(t, states, event.Type, object)
	}
	for name, w := range log.objects {
		for _, r := range w.revisions {
			if byRevision[r] != name {
				t.Errorf("no event of the acknowledged revision %d of %s", r, name)
			}
		}
		state, seen := states[name]
		if _, err := client.Get(ctx, name, metav1.GetOptions{}); apierrors.IsNotFound(err) == (seen && state != deleted) {
			t.Errorf("%s: the last event left it in state %d, but get says %v", name, state, err)
		}
	}
}

// checkState requires that the state of the object follows that of its last event.
func (f *follower) checkState(t *testing.T, states map[string]int, kind watch.EventType, object *corev1.ConfigMap) {
	t.Helper()
	n, err := strconv.Atoi(object.Data["n"])
	if err != nil {
		t.Fatal(err)
	}
	state, seen := states[object.Name]
	switch {
	case kind == watch.Added && !seen && n == 0:
		states[object.Name] = 0
	case kind == watch.Modified && seen && n == state+1:
		states[object.Name] = n
	case kind == watch.Deleted && seen && n == state:
		states[object.Name] = deleted
	default:
		t.Errorf("%s of %s in state %d, seen %t in state %d", kind, object.Name, n, seen, state)
	}
}

// informed is a shared informer and the calls of its handler.
type informed struct {
	store    cache.Store
	seen     chan string  // the resourceVersion of the object "end", once it is seen
	repeated atomic.Int64 // updates without a change, as a second list causes them
}

func inform(ctx context.Context, t *testing.T, server *harness.Server) *informed {
	t.Helper()
	i := &informed{seen: make(chan string, 1)}
	factory := informers.NewSharedInformerFactoryWithOptions(aloneClientFor(t, server), 0, informers.WithNamespace("default"))
	informer := factory.Core().V1().ConfigMaps().Informer()
	i.store = informer.GetStore()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			if one := object.(*corev1.ConfigMap); one.Name == "end" {
				i.seen <- one.ResourceVersion
			}
		},
		UpdateFunc: func(before, after any) {
			if before.(*corev1.ConfigMap).ResourceVersion == after.(*corev1.ConfigMap).ResourceVersion {
				i.repeated.Add(1)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	factory.StartWithContext(ctx)
	t.Cleanup(func() { cancel(); factory.Shutdown() })
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		t.Fatal("the informer does not sync")
	}
	return i
}

// check waits until the informer has seen the end, and compares its cache with the server. repeated is the allowed number of updates without a
// change: one per object if it had to list again once.
func (i *informed) check(ctx context.Context, t *testing.T, client typedcorev1.ConfigMapInterface, end string, repeated int64) {
	t.Helper()
	select {
	case seen := <-i.seen:
		if seen != end {
			t.Errorf("the informer saw the end at %s, not %s", seen, end)
		}
	case <-ctx.Done():
		t.Fatal("the informer does not come to the end")
	}
	if n := i.repeated.Load(); n > repeated {
		t.Errorf("the informer was told %d times what it knew, and not %d: it had to list again", n, repeated)
	}
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := len(i.store.ListKeys()); got != len(list.Items) {
		t.Errorf("the informer has %d objects, the server %d", got, len(list.Items))
	}
	for _, object := range list.Items {
		cached, exists, err := i.store.GetByKey("default/" + object.Name)
		if err != nil || !exists || cached.(*corev1.ConfigMap).ResourceVersion != object.ResourceVersion {
			t.Errorf("the informer has not seen the last state of %s: %t, %v", object.Name, exists, err)
		}
	}
}
