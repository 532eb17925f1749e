package resources

import (
	"context"
	"time"

	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// timed is a store whose share of the time of a request is noted.
type timed struct{ Store }

// Get implements Reader.
func (s timed) Get(ctx context.Context, key Key, at At) (*Object, error) {
	defer noteStorage(ctx, time.Now())
	return s.Store.Get(ctx, key, at)
}

// Commit implements Writer.
func (s timed) Commit(ctx context.Context, writes ...Write) ([]*Object, error) {
	defer noteStorage(ctx, time.Now())
	return s.Store.Commit(ctx, writes...)
}

func noteStorage(ctx context.Context, began time.Time) {
	genericapirequest.TrackStorageLatency(ctx, time.Since(began))
}
