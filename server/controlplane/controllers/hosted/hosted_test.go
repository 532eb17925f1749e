package hosted_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/controlplane/controllers/hosted"
	"github.com/rowlock/rowlock/sqlstore/sqlitetest"
)

// fixture is a store of config maps, and a controller that records the calls of its handlers.
type fixture struct {
	*testing.T
	store resources.Store
	// told has a line for each event of the controller.
	told chan string
	// fail has the errors with which runs of the controller end.
	fail chan error
	// body is what the controller does.
	body func(context.Context, *hosted.Informers) error
	*hosted.Controller
}

const patience = 2 * time.Minute

func newFixture(t *testing.T) *fixture {
	f := &fixture{T: t, store: sqlitetest.Open(t), told: make(chan string, 100), fail: make(chan error)}
	f.body = f.run
	f.Controller = hosted.New(hosted.Options{Name: "a test", Store: f.store, Logger: slog.New(slog.DiscardHandler),
		Run: func(ctx context.Context, informers *hosted.Informers) error { return f.body(ctx, informers) },
		Follows: []hosted.Followed{{Resource: "configmaps",
			Shows: func(o *resources.Object) bool { return !strings.HasPrefix(o.Name, "hidden") },
			Needs: func(o *resources.Object) bool { return strings.HasPrefix(o.Name, "needed") }}}})
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		f.Work(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-stopped
	})
	return f
}

func (f *fixture) run(ctx context.Context, informers *hosted.Informers) error {
	maps := coreinformers.New(informers, "", nil).ConfigMaps()
	f.told <- "begins"
	tell := func(what string) func(any) {
		return func(obj any) {
			f.told <- what + " " + obj.(*corev1.ConfigMap).Name + "=" + obj.(*corev1.ConfigMap).Data["value"]
		}
	}
	_, err := maps.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: tell("add"), DeleteFunc: tell("delete"),
		UpdateFunc: func(before, after any) {
			tell("update from " + before.(*corev1.ConfigMap).Data["value"] + " to")(after)
		}})
	if err != nil {
		return err
	}
	defer func() { f.told <- "ends" }()
	select {
	case <-ctx.Done():
		return nil
	case err := <-f.fail:
		return err
	}
}

// expect waits for the next events of the controller.
func (f *fixture) expect(lines ...string) {
	f.Helper()
	var got []string
	for range lines {
		select {
		case line := <-f.told:
			got = append(got, line)
		case <-time.After(patience):
			f.Fatalf("after %q nothing comes, want %q", got, lines)
		}
	}
	if diff := cmp.Diff(lines, got); diff != "" {
		f.Fatal(diff)
	}
}

// write changes the store, and returns the event.
func (f *fixture) write(op resources.Op, name, value string) *resources.Event {
	f.Helper()
	data := fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":%q,"resourceVersion":"0"},"data":{"value":%q}}`, name, value)
	at := strings.Index(data, `"0"`) + 1
	w := resources.Write{Op: op, Key: resources.Key{Resource: "configmaps", Namespace: "ns", Name: name},
		Draft: resources.Draft{Data: []byte(data), RevisionStart: at, RevisionEnd: at + 1}}
	var before *resources.Object
	if op != resources.Create {
		var err error
		if before, err = f.store.Get(f.Context(), w.Key, resources.At{}); err != nil {
			f.Fatal(err)
		}
		w.From = before.Revision
	}
	stored, err := f.store.Commit(f.Context(), w)
	if err != nil {
		f.Fatal(err)
	}
	return &resources.Event{Op: op, Revision: stored[0].Revision, Object: stored[0], Prev: before}
}

// A controller runs while an object needs it, and gets every event once.
func TestNeeds(t *testing.T) {
	f := newFixture(t)
	f.Forget()
	f.Opened()
	f.Observe(f.write(resources.Create, "other", "1"))
	f.write(resources.Create, "hidden", "1")
	needed := f.write(resources.Create, "needed", "1")
	late := f.write(resources.Update, "other", "2") // before the controller starts, and shown to it when it runs
	f.Observe(needed)
	f.expect("begins", "add needed=1", "add other=2")
	f.Observe(late)
	f.Observe(f.write(resources.Update, "other", "3"))
	f.Observe(f.write(resources.Update, "hidden", "2"))
	f.Observe(f.write(resources.Delete, "other", "3"))
	f.expect("update from 2 to other=3", "delete other=3")
	f.Observe(f.write(resources.Delete, "needed", "1"))
	f.expect("delete needed=1", "ends")
	f.Observe(f.write(resources.Create, "needed", "4"))
	f.expect("begins", "add needed=4")
}

// A controller restarts after history was lost, and when it returns or fails.
func TestBeginsAnew(t *testing.T) {
	f := newFixture(t)
	f.Forget()
	f.Observe(f.write(resources.Create, "needed", "1"))
	f.Opened()
	f.expect("begins", "add needed=1")
	f.Forget()
	f.expect("ends")
	f.Observe(f.write(resources.Update, "needed", "2")) // a new start shows it again
	f.write(resources.Create, "other", "1")             // not observed, because the type is not open yet
	f.Opened()
	f.expect("begins", "add needed=2", "add other=1")
	f.fail <- nil
	f.expect("ends", "begins", "add needed=2", "add other=1")
	f.fail <- errors.New("not now")
	f.expect("ends", "begins", "add needed=2", "add other=1")
	f.Forget() // no objects exist any more
	f.expect("ends")
}

// TestCalmQueue checks that a controller whose queue is replaced gets the objects that existed before, and each one that is written meanwhile.
func TestCalmQueue(t *testing.T) {
	type controller struct {
		queue workqueue.TypedRateLimitingInterface[string]
	}
	const later = 60
	for range 5 {
		f := newFixture(t)
		f.body = func(ctx context.Context, informers *hosted.Informers) error {
			c := &controller{workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())}
			_, err := coreinformers.New(informers, "", nil).ConfigMaps().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
				AddFunc: func(obj any) { c.queue.Add(obj.(*corev1.ConfigMap).Name) }})
			if err != nil {
				return err
			}
			f.told <- "begins"
			for c.queue.Len() < 3 { // events are coming in
				time.Sleep(time.Microsecond)
			}
			informers.CalmQueue(c, "a test")
			stop := context.AfterFunc(ctx, func() { c.queue.ShutDown() })
			defer stop()
			for {
				name, ended := c.queue.Get()
				if ended {
					return nil
				}
				f.told <- name
				c.queue.Done(name)
			}
		}
		f.Forget()
		f.Observe(f.write(resources.Create, "needed", "1"))
		f.Opened()
		f.expect("begins")
		want := []string{"needed"}
		for i := range later {
			want = append(want, fmt.Sprintf("later-%02d", i))
			f.Observe(f.write(resources.Create, want[i+1], "1"))
		}
		f.expect(want...)
	}
}
