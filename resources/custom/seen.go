package custom

import (
	"crypto/sha256"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/runtime"
)

// recent remembers the values of the digests that were added last.
type recent[V any] struct {
	mu     sync.Mutex
	values map[[sha256.Size]byte]V
	// order is a ring of the digests; next is the oldest one once it is full.
	order [][sha256.Size]byte
	next  int
}

// recentRoom is the number of digests, of 100 bytes each.
const recentRoom = 4096

// Get finds the value of a digest.
func (r *recent[V]) Get(key [sha256.Size]byte) (V, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, there := r.values[key]
	return v, there
}

// Put remembers the value of a digest. It does not change an earlier value.
func (r *recent[V]) Put(key [sha256.Size]byte, v V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, there := r.values[key]; there {
		return
	}
	if r.values == nil {
		r.values = map[[sha256.Size]byte]V{}
	}
	r.values[key] = v
	if len(r.order) < recentRoom {
		r.order = append(r.order, key)
		return
	}
	delete(r.values, r.order[r.next])
	r.order[r.next] = key
	r.next = (r.next + 1) % recentRoom
}

// seen remembers the digests that were added last.
type seen struct{ recent[struct{}] }

// Has reports whether a digest is remembered.
func (s *seen) Has(key [sha256.Size]byte) bool {
	_, there := s.Get(key)
	return there
}

// Add remembers a digest.
func (s *seen) Add(key [sha256.Size]byte) { s.Put(key, struct{}{}) }

// repeats remembers the updates of definitions that changed nothing.
type repeats struct{ seen }

// Repeatable implements resources.Repeats. An update that neither allocates nor frees names reads no other definition.
func (*repeats) Repeatable(obj, old runtime.Object) bool {
	now, ok := obj.(*apiextensions.CustomResourceDefinition)
	before, was := old.(*apiextensions.CustomResourceDefinition)
	return ok && was && settled(now, before)
}
