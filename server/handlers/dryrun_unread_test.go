package handlers_test

import (
	"context"
	"errors"
	"testing"

	"github.com/rowlock/rowlock/resources"
)

// unreadStore has an object that cannot be decrypted, of the name "lost".
type unreadStore struct{ resources.Store }

func (s *unreadStore) Get(ctx context.Context, key resources.Key, at resources.At) (*resources.Object, error) {
	if key.Name == "lost" {
		return nil, &resources.TransformError{Err: errors.New("no key")}
	}
	return s.Store.Get(ctx, key, at)
}

// A dry run of a create takes the name of an object that cannot be decrypted as free.
func TestDryCreateOverUnreadable(t *testing.T) {
	a := newAPI(t)
	a.store.Store = &unreadStore{a.store.Store}
	a.run(exchange{do: "POST " + configMaps + "?dryRun=All", body: `{"metadata":{"name":"lost"}}`, code: 201, says: says{"metadata.name": "lost"}})
}
