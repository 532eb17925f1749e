package server

import (
	"context"

	"k8s.io/apiserver/pkg/storage"
	flowrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"

	"github.com/rowlock/rowlock/resources"
)

// sampledObjects are so many objects of a type whose sizes stand for those of all: they say whether a list is of kilobytes or megabytes.
const sampledObjects = 8

// objectStats is how many objects of a type there are, and about how large they are, for upstream's estimate of what a list costs.
func (s *Server) objectStats(resource string) (storage.Stats, error) {
	t, ok := s.Registry.Catalog().Type(resource)
	if !ok {
		return storage.Stats{}, flowrequest.ObjectCountNotFoundErr // another server's, which costs this one nothing
	}
	return s.statsOf(t)
}

func (s *Server) statsOf(t *resources.Type) (storage.Stats, error) {
	// It is asked while the configuration of all levels is locked, and waits for nothing: Any takes what is at hand.
	snapshot, err := s.Store.Snapshot(context.Background(), t.ResourceName(), resources.At{Match: resources.Any})
	if err != nil {
		return storage.Stats{}, flowrequest.ObjectCountStaleErr
	}
	stats := storage.Stats{ObjectCount: int64(snapshot.Count("", ""))}
	var bytes, seen int64
	snapshot.Ascend("", "", func(o *resources.Object) bool {
		if o.IsPacked() {
			bytes += o.Size()
		} else {
			bytes += int64(len(o.Data))
		}
		seen++
		return seen < sampledObjects
	})
	if seen > 0 {
		stats.EstimatedAverageObjectSizeBytes = bytes / seen
	}
	return stats, nil
}
