package openapi

import (
	"time"

	"github.com/rowlock/rowlock/resources"
)

// NewAt is New with a clock.
func NewAt(registry *resources.Registry, now func() time.Time) *Handler {
	return &Handler{registry: registry, now: now, definitions: embedded}
}

// Summed counts the documents whose ETag was computed for an index.
func (h *Handler) Summed() int64 { return h.summed.Load() }

// Plain is the size in bytes of all uncompressed documents.
func (h *Handler) Plain() int {
	h.building.Lock()
	defer h.building.Unlock()
	return h.recent.bytes
}
