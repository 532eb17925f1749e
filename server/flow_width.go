package server

import (
	"k8s.io/apiserver/pkg/storage"
	flowrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
)

// objectStats is how many objects of a type there are, and about how large they are, for upstream's estimate of what a list costs. It is
// asked while the configuration of all levels is locked, and waits for nothing.
func (s *Server) objectStats(resource string) (storage.Stats, error) {
	t, ok := s.Registry.Catalog().Type(resource)
	if !ok {
		return storage.Stats{}, flowrequest.ObjectCountNotFoundErr // another server's, which costs this one nothing
	}
	amount := s.Store.Amount(t.ResourceName())
	return storage.Stats{ObjectCount: amount.Objects, EstimatedAverageObjectSizeBytes: amount.AverageBytes}, nil
}
