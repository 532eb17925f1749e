package resources

import (
	"context"
	"time"

	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// timed is a store that counts commits, and notes the store's share of a request's time if there is an audit.
type timed struct {
	Store
	noted bool
	// commits is called for every commit. May be nil.
	commits func(writes []Write, err error, took time.Duration)
}

// Get implements Reader.
func (s *timed) Get(ctx context.Context, key Key, at At) (*Object, error) {
	if s.noted {
		defer noteStorage(ctx, time.Now())
	}
	return s.Store.Get(ctx, key, at)
}

// Commit implements Writer.
func (s *timed) Commit(ctx context.Context, writes ...Write) ([]*Object, error) {
	began := time.Now()
	objects, err := s.Store.Commit(ctx, writes...)
	took := time.Since(began)
	if s.noted {
		genericapirequest.TrackStorageLatency(ctx, took)
	}
	if s.commits != nil {
		s.commits(writes, err, took)
	}
	return objects, err
}

// Stale implements Restorer.
func (s *timed) Stale(ctx context.Context, o *Object) bool {
	r, ok := s.Store.(Restorer)
	return ok && r.Stale(ctx, o)
}

func noteStorage(ctx context.Context, began time.Time) {
	genericapirequest.TrackStorageLatency(ctx, time.Since(began))
}
