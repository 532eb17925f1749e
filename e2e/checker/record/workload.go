package record

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/rowlock/rowlock/e2e/checker/history"
)

// Options define a round.
type Options struct {
	// Targets are the servers, all of one store.
	Targets []Target
	// Namespace is created by the round, and must not exist before.
	Namespace string
	// Seed chooses the operations of clients, but not their timing, and so not their answers.
	Seed uint64
	// Duration is how long clients work.
	Duration time.Duration
	// Clients and Watchers are their numbers; Names is the number of objects that the clients share.
	Clients, Watchers, Names int
	// Crowd says that clients and watches are thousands: lists are rare, and each watch selects one of many colors. Reluctant of the watches see
	// everything, and read slowly until the clients have ended.
	Crowd     bool
	Reluctant int
	// Age is how old a change is when servers begin to prune it; 0: they prune none in this round. Sized says that they may prune earlier, because history
	// has become too large.
	Age   time.Duration
	Sized bool
	// Midway, if not nil, is called in the middle of the round, with a revision that a client was told.
	Midway func(told int64) error
	// Leave says that the namespace is still needed.
	Leave bool
	// Loss makes the round continue in the namespace of an earlier one, whose writes are lost when Lose has returned; nil: none are.
	Loss *history.Loss
	Lose func() error
	// Patience is the longest wait of a client for an answer.
	Patience time.Duration
	// EndWithin is how long servers may take, after the clients have ended, until they answer again and watches have reached the end.
	EndWithin time.Duration
}

// readyWithin is how long servers may take until a round can begin.
const readyWithin = time.Minute

// lastName is the object that is written last. It sorts behind all others, so that it ends states.
const lastName = "zzz-end"

var colors = []string{"red", "blue"}

// Round lets clients and watchers work for a while and returns their history. Faults are no errors: they are in the history. After an error, the
// history is what there is of it, or nil.
func Round(ctx context.Context, o Options) (*history.History, error) {
	r := &recorder{targets: o.Targets, namespace: o.Namespace, patience: o.Patience, began: time.Now(), ended: make(chan struct{}), objects: map[string]*history.Object{},
		crowd: newCrowd(&o), resumed: resumed}
	if r.age, r.history.Age = o.Age, int64(o.Age); o.Age > 0 {
		r.resumed = resumedPruned
	}
	if o.Sized {
		r.history.Age = 1
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	var errs errorList
	var clients, watchers sync.WaitGroup
	prepare := r.prepare
	if o.Loss != nil {
		prepare = func(ctx context.Context) error { return r.lose(ctx, watching, &o, &watchers, &errs) }
	}
	if err := prepare(ctx); err != nil {
		stop()
		watchers.Wait()
		return nil, err
	}
	for i := range o.Watchers {
		watchers.Go(func() { errs.add(r.watcher(watching, &o, i)) })
	}
	for i := range o.Clients {
		clients.Go(func() { errs.add(r.client(ctx, &o, i)) })
	}
	if o.Midway != nil {
		clients.Go(func() {
			time.Sleep(o.Duration / 2)
			errs.add(o.Midway(r.reached()))
		})
	}
	clients.Wait()
	end, err := r.finish(ctx, o.EndWithin)
	if r.history.Cut = err != nil; r.history.Cut {
		stop()
	}
	errs.add(err)
	r.history.End = end
	close(r.ended)
	for server := range o.Targets { // everything once more, from the beginning, on each server
		watchers.Go(func() {
			errs.add(r.watch(watching, history.Watch{Client: -1, Server: server, Match: history.Exact, At: r.history.Start}, 0))
		})
	}
	late := time.AfterFunc(o.EndWithin, stop)
	watchers.Wait()
	late.Stop()
	if !o.Leave {
		r.cleanUp(ctx)
	}
	return &r.history, errors.Join(append(errs.all, ctx.Err())...)
}

// errorList gathers errors of goroutines.
type errorList struct {
	mu  sync.Mutex
	all []error
}

func (l *errorList) add(err error) {
	if err != nil {
		l.mu.Lock()
		l.all = append(l.all, err)
		l.mu.Unlock()
	}
}

// prepare creates the namespace and determines the revision at which it is empty.
func (r *recorder) prepare(ctx context.Context) error {
	body := map[string]any{"metadata": map[string]any{"name": r.namespace}}
	_, err := r.until(ctx, readyWithin, func() (bool, error) {
		_, code, err := r.ask(ctx, r.targets[0], http.MethodPost, "/api/v1/namespaces", plainJSON, body)
		return code == http.StatusCreated || code == http.StatusConflict, err
	})
	if err != nil {
		return fmt.Errorf("namespace %s: %w", r.namespace, err)
	}
	list, err := r.begin(ctx)
	if err == nil && len(list.Items) > 0 {
		return fmt.Errorf("namespace %s is not empty: has it been used before, or does a controller write there?", r.namespace)
	}
	return err
}

// begin lists the objects, and begins the history at the list's revision.
func (r *recorder) begin(ctx context.Context) (list *wire, err error) {
	_, err = r.until(ctx, readyWithin, func() (_ bool, err error) {
		var code int
		list, code, err = r.ask(ctx, r.targets[0], http.MethodGet, r.path("", nil), "", nil)
		return code == http.StatusOK, err
	})
	if err != nil {
		return nil, fmt.Errorf("first list: %w", err)
	}
	r.history.Start, err = list.revision()
	r.learn(history.Object{Revision: r.history.Start})
	return list, err
}

// until tries something until it succeeds or the time is over.
func (r *recorder) until(ctx context.Context, within time.Duration, try func() (bool, error)) (tries int, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for ; ; tries++ {
		done, err := try()
		if done || err != nil && !errors.Is(err, errNotSent) {
			return tries, err
		}
		select {
		case <-ctx.Done():
			return tries, fmt.Errorf("no success in %v: %w", within, ctx.Err())
		case <-time.After(pause):
		}
	}
}

// watcher opens a watch of some kind at some time of the round, and keeps it.
func (r *recorder) watcher(ctx context.Context, o *Options, number int) error {
	random := rand.New(rand.NewPCG(o.Seed, uint64(number)<<32))
	w := history.Watch{Client: -2 - number, Server: number % len(r.targets), Match: history.Exact, At: r.history.Start, Bookmarks: number%2 == 0}
	var lasts time.Duration
	if r.crowd != nil && number >= len(r.targets) {
		return r.watch(ctx, r.crowd.watch(ctx, r, o, w, random), 0)
	}
	if number >= len(r.targets) { // the first watcher of each server sees everything from the start
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(random.Int64N(int64(o.Duration)))):
		}
		w.Match = []string{history.Exact, history.Exact, history.Any, history.MostRecent, history.NotOlder}[random.IntN(5)]
		w.Initial = w.Match == history.NotOlder || w.Match != history.Exact && random.IntN(2) == 0
		w.Bookmarks = w.Bookmarks || w.Initial
		w.At = 0
		if w.Match == history.Exact || w.Match == history.NotOlder {
			w.At = r.some(random)
		}
		w.Select = []string{"", "", "red", "blue"}[random.IntN(4)]
		lasts = []time.Duration{0, r.resumed - time.Second, r.resumed}[random.IntN(3)]
	}
	return r.watch(ctx, w, lasts)
}

// some returns a revision of the history, often one of the last, or one that is about to be pruned.
func (r *recorder) some(random *rand.Rand) int64 {
	if revision, is := r.aboutToGo(random); is && random.IntN(2) == 0 {
		return revision
	}
	reached := r.reached()
	span := reached - r.history.Start + 1
	if random.IntN(2) == 0 {
		span = min(span, 20)
	}
	return reached - random.Int64N(span)
}

// finish writes the last object so that every watch, of any color, has an event of it, and returns its revision.
func (r *recorder) finish(ctx context.Context, within time.Duration) (int64, error) {
	last := colors
	if r.crowd != nil {
		last = []string{history.EndColor}
	}
	for i, color := range last {
		try := 0
		_, err := r.until(ctx, within, func() (bool, error) {
			try++
			o := history.Operation{Client: -1, Server: try % len(r.targets), Kind: history.Apply, Name: lastName, Color: color,
				Value: "end-" + r.value(i, try)}
			err := r.write(ctx, o, "")
			known := r.known(lastName)
			return known != nil && known.Value == o.Value, err
		})
		if err != nil {
			return 0, fmt.Errorf("the last write: %w", err)
		}
	}
	return r.known(lastName).Revision, nil
}

// cleanUp deletes the namespace, if a server still answers: a long run has many.
func (r *recorder) cleanUp(ctx context.Context) {
	_, _, _ = r.ask(ctx, r.targets[0], http.MethodDelete, "/api/v1/namespaces/"+r.namespace, plainJSON, nil)
}
