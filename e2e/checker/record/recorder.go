// Package record lets clients work on servers of the Kubernetes API and records what they ask and are told, for package history to
// verify. Clients are net/http without client-go: every request that is sent and every byte that is received is known, nothing is tried again in
// silence, and no cache stands between.
//
//	recorder.go   the recorder: clock, operations, what is known of revisions
//	request.go    one request
//	writes.go     create, update, patch, apply, delete
//	reads.go      get, list, pages
//	watches.go    watches, resumed where they end
//	client.go     what a client does
//	workload.go   a round: clients and watchers in an empty namespace
//	loss.go       a round in a namespace of which writes were lost
//	crowd.go      what is different where they are thousands
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
	// Client and Watches have the credentials; Watches sends the requests for streams, of which each has a connection.
	Client, Watches *http.Client
	// Reluctant is for clients that hardly read: what they do not read has to stay with the server.
	Reluctant *http.Client
}

// recorder is what the clients of a round share.
type recorder struct {
	targets   []Target
	namespace string
	patience  time.Duration // for one answer
	crowd     *crowd        // nil: the clients are few
	began     time.Time

	ended chan struct{} // closed when history.End is known

	mu      sync.Mutex
	history history.History
	latest  int64                      // the highest revision that anybody was told
	objects map[string]*history.Object // as somebody last saw them, for preconditions
}

// now is the time since the recorder began, in nanoseconds, by a clock that does not jump.
func (r *recorder) now() int64 { return int64(time.Since(r.began)) }

// learn takes note of an object, or of a revision where it has no name.
func (r *recorder) learn(o history.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.latest = max(r.latest, o.Revision)
	if known := r.objects[o.Name]; o.Name != "" && (known == nil || known.Revision < o.Revision) {
		r.objects[o.Name] = &o
	}
}

// known returns an object as somebody last saw it; nil: nobody did.
func (r *recorder) known(name string) *history.Object {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.objects[name]
}

// reached is the highest revision that anybody was told.
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

// within returns a context that ends when an answer is no longer waited for.
func (r *recorder) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, r.patience)
}
