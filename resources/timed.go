package resources

import (
	"context"
	"time"

	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// timed is a store whose commits are counted, and whose share of the time of a request is noted where there is an audit.
type timed struct {
	Store
	noted bool
	// commits is told of every commit. Nil: nobody is.
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
