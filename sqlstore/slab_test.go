package sqlstore

import "testing"

// A large object gets an allocation of its own, and the rest of the present slab is still used.
func TestSlabIsFilled(t *testing.T) {
	var s slab
	s.place(make([]byte, 100))
	rest := len(s.free)
	for _, n := range []int{slabSize, slabAlone + 1, slabSize + 1} {
		if rest >= n {
			rest -= n // it fits
		}
		if placed := s.place(make([]byte, n)); len(placed) != n || len(s.free) != rest {
			t.Errorf("after %d bytes there are %d left of the slab, %d are expected", n, len(s.free), rest)
		}
	}
	if s.place(make([]byte, 10)); len(s.free) != rest-10 {
		t.Errorf("10 bytes are not in the slab, of which %d are left", len(s.free))
	}
	if s.placed != 100+slabSize+slabAlone+1+slabSize+1+10 {
		t.Errorf("%d bytes are said to be placed", s.placed)
	}
}
