package server

import (
	"k8s.io/apiserver/pkg/storage"
	flowrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
)

// objectStats returns the number and approximate size of the objects of a type, for upstream's estimate of a list's cost. Upstream calls it with
// the configuration of all levels locked, so it waits for nothing.
func (s *Server) objectStats(resource string) (storage.Stats, error) {
	t, ok := s.Registry.Catalog().Type(resource)
	if !ok {
		return storage.Stats{}, flowrequest.ObjectCountNotFoundErr // the type of another server, whose list costs this server nothing
	}
	amount := s.Store.Amount(t.ResourceName())
	return storage.Stats{ObjectCount: amount.Objects, EstimatedAverageObjectSizeBytes: amount.AverageBytes}, nil
}
