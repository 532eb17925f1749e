package record

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/e2e/checker/history"
)

// pause is how long a watcher waits before it asks again after an error.
const pause = 50 * time.Millisecond

// frame is a frame that a watch receives.
type frame struct {
	Type   string `json:"type"`
	Object wire   `json:"object"`
}

// silence is how long a silent stream counts as alive.
const silence = 30 * time.Second

// resumed is the timeout that a continued stream asks for: watches are often resumed. A stream that follows one without progress asks for twice as
// long, up to resumedMost, so that the watch reaches the end on a slow machine, too. Where servers prune, watches are resumed more often.
const (
	resumed       = 4 * time.Second
	resumedPruned = time.Second
	resumedMost   = 32 * time.Second
)

// watch keeps a watch open until the history has ended: when a stream ends, another continues from its last revision. All streams are recorded. w
// defines the start of the watch, and lasts the timeout of its first stream.
func (r *recorder) watch(ctx context.Context, w history.Watch, lasts time.Duration) error {
	for ctx.Err() == nil {
		reached, done, err := r.stream(ctx, &w, lasts)
		if err != nil {
			return err
		}
		w.Complete = done
		r.addWatch(w)
		if done {
			return nil
		}
		next := history.Watch{Client: w.Client, Server: (w.Server + 1) % len(r.targets), Match: w.Match, At: w.At, Initial: w.Initial,
			Bookmarks: true, Select: w.Select}
		if reached > 0 { // it has had the state, or later events
			next.Match, next.At, next.Initial = history.Exact, reached, false
		}
		if w.Code == http.StatusGone { // as informers do; the verifier decides whether the refusal was right
			next.Match, next.At, next.Initial = history.MostRecent, 0, true
		}
		switch {
		case reached > w.At || lasts < r.resumed:
			lasts = r.resumed
		case w.Code == http.StatusOK:
			lasts = min(2*lasts, resumedMost)
		}
		if len(w.Events) == 0 && w.Code != http.StatusOK {
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
		r.lag(ctx, &next)
		w = next
	}
	// The end did not come in time. The verifier reports that, as it sees a watch that should be complete.
	w.Complete, w.Code = true, http.StatusOK
	r.addWatch(w)
	return nil
}

func (r *recorder) watchQuery(w *history.Watch, lasts time.Duration) url.Values {
	query := url.Values{"watch": {"true"}}
	switch {
	case w.Initial:
		query.Set("sendInitialEvents", "true")
		query.Set("resourceVersionMatch", "NotOlderThan")
		if w.Match == history.Any {
			query.Set("resourceVersion", "0")
		} else if w.Match == history.NotOlder {
			query.Set("resourceVersion", strconv.FormatInt(w.At, 10))
		}
	case w.Match == history.Any:
		query.Set("resourceVersion", "0")
	case w.Match == history.Exact:
		query.Set("resourceVersion", strconv.FormatInt(w.At, 10))
	}
	if w.Bookmarks {
		query.Set("allowWatchBookmarks", "true")
	}
	if w.Select != "" {
		query.Set("labelSelector", r.selector(w.Select))
	}
	if lasts > 0 {
		query.Set("timeoutSeconds", strconv.Itoa(int(lasts/time.Second)))
	}
	return query
}

// stream is one request. It returns the revision from which the watch can be resumed, or 0 if that is unknown: an unmarked state may have been cut
// short. done says that the end of the history was reached.
func (r *recorder) stream(ctx context.Context, w *history.Watch, lasts time.Duration) (_ int64, done bool, err error) {
	var reached atomic.Int64
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if w.Match == history.Exact {
		reached.Store(w.At)
	}
	// A watch that reaches the end before the end is known gets no further event.
	go func() {
		select {
		case <-ctx.Done():
		case <-r.ended:
			if r.over(reached.Load()) {
				cancel()
			}
		}
	}()
	w.Call = r.now()
	defer func() { w.Return = r.now() }()
	// A stream that does not begin to answer is abandoned; one that has begun may be silent for longer.
	silent := time.AfterFunc(r.patience, cancel)
	defer silent.Stop()
	target := r.targets[w.Server]
	target.Client = r.crowd.streams(&target, w)
	response, err := send(ctx, target, http.MethodGet, r.path("", r.watchQuery(w, lasts)), "", nil)
	if err != nil {
		return reached.Load(), false, nil //nolint:nilerr // the record says that there was no answer
	}
	defer response.Body.Close()
	if w.Code = response.StatusCode; w.Code != http.StatusOK {
		return reached.Load(), false, nil
	}
	for d := json.NewDecoder(r.crowd.reader(ctx, r, w, response.Body)); ; {
		if silent.Reset(silence); r.crowd.stops(w) {
			silent.Stop() // nobody reads, and it is not the stream that is silent
		}
		more, err := r.frame(d, w, &reached)
		if err != nil || !more || r.over(reached.Load()) {
			return reached.Load(), r.over(reached.Load()), err
		}
	}
}

// frame reads the next frame of a stream; false: there is none.
func (r *recorder) frame(d *json.Decoder, w *history.Watch, reached *atomic.Int64) (more bool, err error) {
	var f frame
	if d.Decode(&f) != nil {
		return false, nil
	}
	if f.Type == "ERROR" {
		w.Code = f.Object.Code
		return false, nil
	}
	e := history.Event{Time: r.now(), Type: f.Type, InitialEnd: f.Object.Metadata.Annotations["k8s.io/initial-events-end"] == "true"}
	if f.Type == history.Bookmark {
		e.Object.Revision, err = f.Object.revision()
	} else {
		e.Object, err = f.Object.object()
	}
	if err != nil {
		return false, err
	}
	w.Events = append(w.Events, e)
	// In a state without an end mark, revisions come in any order; its last object is the one that ends the history.
	if reached.Load() > 0 || e.InitialEnd || !w.Initial && (f.Type != history.Added || e.Object.Name == lastName) {
		reached.Store(max(reached.Load(), e.Object.Revision))
	}
	r.learn(history.Object{Revision: e.Object.Revision})
	return true, nil
}

// over says whether the end of the history is known, and a revision has reached it.
func (r *recorder) over(revision int64) bool {
	select {
	case <-r.ended:
		return revision >= r.history.End
	default:
		return false
	}
}
