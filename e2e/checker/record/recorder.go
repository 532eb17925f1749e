// Package record lets clients work on servers of the Kubernetes API and records their requests and answers for package history to verify. Clients are
// net/http without client-go: every request and every received byte is known, nothing is retried silently, and there is no cache.
//
//	recorder.go   the recorder: clock, operations, known revisions
//	request.go    one request
//	writes.go     create, update, patch, apply, delete
//	reads.go      get, list, pages
//	watches.go    watches, resumed when they end
//	client.go     the operations of a client
//	workload.go   a round: clients and watchers in an empty namespace
//	loss.go       a round in a namespace that has lost writes
//	flight.go     writes in flight while writes are lost
//	crowd.go      rounds with thousands of clients
//	pruned.go     rounds in which servers prune what is old
package record

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/rowlock/rowlock/e2e/checker/history"
)

// Target is a server that clients use.
type Target struct {
	// URL is the base of all requests.
	URL string
	// Client and Watches have the credentials; Watches sends the requests for streams, with a connection for each.
	Client, Watches *http.Client
	// Reluctant is for clients that read slowly: unread data has to stay with the server.
	Reluctant *http.Client
}

// recorder is shared by the clients of a round.
type recorder struct {
	targets   []Target
	namespace string
	patience  time.Duration // for one answer
	age       time.Duration // of what servers prune; 0: nothing
	resumed   time.Duration // the timeout of a resumed watch
	crowd     *crowd        // nil: few clients
	began     time.Time

	ended chan struct{} // closed when history.End is known

	mu      sync.Mutex
	history history.History
	latest  int64                      // the highest revision that any client was told
	told    []told                     // when it was which, where servers prune
	objects map[string]*history.Object // as last seen by a client, for preconditions
}

// now is the time since the recorder began, in nanoseconds, by a clock that does not jump.
func (r *recorder) now() int64 { return int64(time.Since(r.began)) }

// learn notes an object, or only a revision if it has no name.
func (r *recorder) learn(o history.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.latest = max(r.latest, o.Revision)
	r.remember()
	if known := r.objects[o.Name]; o.Name != "" && (known == nil || known.Revision < o.Revision) {
		r.objects[o.Name] = &o
	}
}

// known returns an object as last seen by a client, or nil.
func (r *recorder) known(name string) *history.Object {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.objects[name]
}

// reached is the highest revision that any client was told.
func (r *recorder) reached() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.latest
}

func (r *recorder) addOperation(o history.Operation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Operations = append(r.history.Operations, o)
}

func (r *recorder) addWatch(w history.Watch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Watches = append(r.history.Watches, w)
}

// within returns a context that limits the wait for an answer.
func (r *recorder) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, r.patience)
}
