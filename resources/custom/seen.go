package custom

import (
	"crypto/sha256"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/runtime"
)

// seen remembers the digests that it was given last.
type seen struct {
	mu      sync.Mutex
	digests map[[sha256.Size]byte]bool
	// order is a ring of what is remembered, of which next is the oldest once it is full.
	order [][sha256.Size]byte
	next  int
}

// seenRoom is how many digests are remembered, of 100 bytes each.
const seenRoom = 4096

// Has tells whether a digest is remembered.
func (s *seen) Has(key [sha256.Size]byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.digests[key]
}

// Add remembers a digest.
func (s *seen) Add(key [sha256.Size]byte) { s.AddAll([][sha256.Size]byte{key}) }

// AddAll remembers several.
func (s *seen) AddAll(keys [][sha256.Size]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		s.add(key)
	}
}

func (s *seen) add(key [sha256.Size]byte) {
	if s.digests[key] {
		return
	}
	if s.digests == nil {
		s.digests = map[[sha256.Size]byte]bool{}
	}
	s.digests[key] = true
	if len(s.order) < seenRoom {
		s.order = append(s.order, key)
		return
	}
	delete(s.digests, s.order[s.next])
	s.order[s.next] = key
	s.next = (s.next + 1) % seenRoom
}

// repeats remembers the updates of definitions that changed nothing.
type repeats struct{ seen }

// Repeatable implements resources.Repeats. An update that neither gives nor takes names looks at no other definition.
func (*repeats) Repeatable(obj, old runtime.Object) bool {
	now, ok := obj.(*apiextensions.CustomResourceDefinition)
	before, was := old.(*apiextensions.CustomResourceDefinition)
	return ok && was && settled(now, before)
}
