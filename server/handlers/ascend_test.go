package handlers

import (
	"context"
	"errors"
	"testing"

	"github.com/rowlock/rowlock/resources"
)

// manyObjects is a Snapshot of objects that differ in nothing.
type manyObjects struct {
	resources.Snapshot
	n, visited int
}

func (m *manyObjects) Ascend(_, _ string, yield func(*resources.Object) bool) {
	o := &resources.Object{}
	for range m.n {
		m.visited++
		if !yield(o) {
			return
		}
	}
}

// TestSelectionEndsWithTheRequest lets the client go while objects are compared with a selector that matches none of them.
func TestSelectionEndsWithTheRequest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	snapshot := &manyObjects{n: 100 * matchedAtOnce}
	s := &selection{}
	s.ascend(ctx, snapshot, "", func(*resources.Object) bool {
		cancel()
		return true
	})
	if snapshot.visited > matchedAtOnce || !errors.Is(s.failed, context.Canceled) {
		t.Errorf("%d of %d objects were visited after the client had left, with the error %v", snapshot.visited, snapshot.n, s.failed)
	}
}
