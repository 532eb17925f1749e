package server

import "testing"

// The store is asked to move things together after a burst, goes on while nobody asks for anything, and ends when
// somebody does.
func TestTrimEndsWithTheNextRequest(t *testing.T) {
	var trimmer *trimmer
	asked := 0
	trimmer = newTrimmer(func() int { return 0 }, func(moved func(int) bool) {
		asked++
		if !moved(compactStep) || !moved(1) {
			t.Error("ended though nothing was asked of the server")
		}
		if trimmer.busy(); moved(1) {
			t.Error("went on though there was a request")
		}
	})
	trimmer.allocated = allocated() - trimWorth
	trimmer.trim()
	trimmer.trim()
	if asked != 1 {
		t.Errorf("the store was asked %d times, and once there was nothing to gain", asked)
	}
}
