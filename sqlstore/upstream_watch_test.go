package sqlstore

import (
	"context"
	"errors"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"

	"github.com/rowlock/rowlock/resources"
)

// upstreamBookmarks is how often the adapter sends bookmarks: often enough for tests that wait for one.
const upstreamBookmarks = 100 * time.Millisecond

// Watch presents a cursor as a channel of events. The state and the cursor are taken before it returns, as upstream's stores do: what a test creates
// afterwards is an event of the watch. Their errors are events.
func (u *upstreamStore) Watch(ctx context.Context, key string, opts storage.ListOptions) (apiwatch.Interface, error) {
	at, err := u.at(opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &upstreamWatch{store: u, opts: opts, path: strings.TrimPrefix(key, upstreamPrefix), events: make(chan apiwatch.Event, 100), cancel: cancel}
	if opts.Recursive && !strings.HasSuffix(w.path, "/") && w.path != "" {
		w.path += "/"
	}
	err = w.open(ctx, at)
	utilflowcontrol.WatchInitialized(ctx)
	go func() {
		defer close(w.events)
		defer cancel()
		if err != nil {
			w.fail(ctx, err)
			return
		}
		defer w.cursor.Close()
		if w.begin(ctx) {
			w.follow(ctx)
		}
	}()
	return w, nil
}

type upstreamWatch struct {
	store  *upstreamStore
	opts   storage.ListOptions
	path   string
	events chan apiwatch.Event
	cancel context.CancelFunc

	after   int64              // the revision with which the watch begins
	initial resources.Snapshot // state to send first, else nil
	cursor  resources.Watch
}

func (w *upstreamWatch) Stop()                             { w.cancel() }
func (w *upstreamWatch) ResultChan() <-chan apiwatch.Event { return w.events }

// open determines the state or the revision with which the watch begins, and opens its cursor there.
func (w *upstreamWatch) open(ctx context.Context, at resources.At) (err error) {
	initial := at.Match != resources.NotOlderThan
	if w.opts.SendInitialEvents != nil {
		initial = *w.opts.SendInitialEvents
	}
	w.after = at.Revision
	if initial || at.Match != resources.NotOlderThan {
		snap, err := w.store.store.Snapshot(ctx, "pods", at)
		if err != nil {
			return err
		}
		w.after = snap.Revision()
		if initial {
			w.initial = snap
		}
	}
	w.cursor, err = w.store.store.Watch(ctx, resources.WatchOptions{Resource: "pods", After: w.after})
	return err
}

// begin sends the initial state.
func (w *upstreamWatch) begin(ctx context.Context) bool {
	if w.initial == nil {
		return true
	}
	w.initial.Ascend("", "", func(o *resources.Object) bool {
		return w.send(ctx, &resources.Event{Op: resources.Create, Revision: o.Revision, Object: o})
	})
	return w.opts.SendInitialEvents == nil || w.bookmark(ctx, w.after, true)
}

func (w *upstreamWatch) follow(ctx context.Context) {
	told := w.after
	ticker := time.NewTicker(upstreamBookmarks)
	defer ticker.Stop()
	for {
		events, revision, err := w.cursor.Next(ctx, 100)
		if err != nil {
			w.fail(ctx, err)
			return
		}
		for _, e := range events {
			if !w.send(ctx, e) {
				return
			}
		}
		select {
		case <-w.cursor.Ready():
		case <-ticker.C:
			if revision > told && !w.bookmark(ctx, revision, false) {
				return
			}
			told = revision
		case <-ctx.Done():
			return
		}
	}
}

// decode returns an object if the watch selects it, else nil.
func (w *upstreamWatch) decode(o *resources.Object) (runtime.Object, error) {
	if o == nil || w.opts.Recursive && !strings.HasPrefix(o.Path(), w.path) || !w.opts.Recursive && o.Path() != w.path {
		return nil, nil
	}
	pod := &example.Pod{}
	if err := w.store.decode(o, pod); err != nil {
		return nil, err
	}
	if ok, err := w.opts.Predicate.Matches(pod); err != nil || !ok {
		return nil, err
	}
	return pod, nil
}

// send translates an event to its meaning for the selector of the watch.
func (w *upstreamWatch) send(ctx context.Context, e *resources.Event) bool {
	now := e.Object
	if e.Op == resources.Delete {
		now = nil
	}
	after, err1 := w.decode(now)
	var last *resources.Object
	if e.Prev != nil {
		last = e.Prev.At(e.Revision)
	}
	before, err2 := w.decode(last)
	if err := errors.Join(err1, err2); err != nil {
		w.fail(ctx, err)
		return false
	}
	switch {
	case after != nil && before != nil:
		return w.put(ctx, apiwatch.Event{Type: apiwatch.Modified, Object: after})
	case after != nil:
		return w.put(ctx, apiwatch.Event{Type: apiwatch.Added, Object: after})
	case before != nil:
		return w.put(ctx, apiwatch.Event{Type: apiwatch.Deleted, Object: before})
	}
	return true
}

func (w *upstreamWatch) bookmark(ctx context.Context, revision int64, initialEnd bool) bool {
	if !w.opts.Predicate.AllowWatchBookmarks && !w.opts.ProgressNotify {
		return true
	}
	pod := &example.Pod{}
	if initialEnd {
		if err := storage.AnnotateInitialEventsEndBookmark(pod); err != nil {
			return false
		}
	}
	m, err := apimeta.Accessor(pod)
	if err != nil {
		return false
	}
	m.SetResourceVersion(resources.FormatRevision(revision))
	return w.put(ctx, apiwatch.Event{Type: apiwatch.Bookmark, Object: pod})
}

func (w *upstreamWatch) fail(ctx context.Context, err error) {
	var expired *resources.ExpiredError
	status := apierrors.NewInternalError(err)
	if errors.As(err, &expired) {
		status = apierrors.NewResourceExpired(err.Error())
	}
	w.put(ctx, apiwatch.Event{Type: apiwatch.Error, Object: &status.ErrStatus})
}

func (w *upstreamWatch) put(ctx context.Context, e apiwatch.Event) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case w.events <- e:
		return true
	case <-ctx.Done():
		return false
	}
}
