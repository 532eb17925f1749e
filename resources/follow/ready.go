package follow

import "sync"

// ready is the list of the watches that may have events, so that the cost of a change does not depend on the number of
// watches. Its mutex is a leaf: the store takes it under its own locks.
type ready struct {
	mu      sync.Mutex
	cursors []*cursor
	woken   chan struct{} // has a value when a cursor was added
}

func newReady() *ready { return &ready{woken: make(chan struct{}, 1)} }

// add puts a watch on the list, unless it is in it.
func (r *ready) add(c *cursor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.listed {
		return
	}
	c.listed = true
	r.cursors = append(r.cursors, c)
	select {
	case r.woken <- struct{}{}:
	default:
	}
}

// take empties the list.
func (r *ready) take() []*cursor {
	r.mu.Lock()
	defer r.mu.Unlock()
	cursors := r.cursors
	r.cursors = nil
	for _, c := range cursors {
		c.listed = false
	}
	return cursors
}
