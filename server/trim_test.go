package server

import "testing"

func none() int { return 0 }

// After a burst the store compacts its memory, continues while there are no requests, and stops at the next one.
func TestTrimEndsWithTheNextRequest(t *testing.T) {
	var trimmer *trimmer
	asked := 0
	trimmer = newTrimmer(none, none, func(_ bool, moved func(int) bool) {
		asked++
		if !moved(defragmentStep) || !moved(1) {
			t.Error("ended though nothing was asked of the server")
		}
		if trimmer.busy(); moved(1) {
			t.Error("went on though there was a request")
		}
	}, nil)
	trimmer.allocated = allocated() - trimWorth
	trimmer.trim(true)
	trimmer.trim(true)
	if asked != 1 {
		t.Errorf("the store was asked %d times, and once there was nothing to gain", asked)
	}
}

// The history for watches stays in memory after a burst, and is dropped once after a long time without requests.
func TestTrimKeepsHistoryForWatches(t *testing.T) {
	var forgot []bool
	trimmer := newTrimmer(none, none, func(forget bool, _ func(int) bool) { forgot = append(forgot, forget) }, nil)
	trimmer.allocated = allocated() - trimWorth
	trimmer.trim(false)
	if !trimmer.kept {
		t.Error("the trimmer does not know that there is something left to forget")
	}
	trimmer.trim(true)
	trimmer.trim(true)
	if len(forgot) != 2 || forgot[0] || !forgot[1] || trimmer.kept {
		t.Errorf("the store was to forget: %v", forgot)
	}
}

// Data that can be rebuilt are dropped each time the server becomes idle, and their memory is returned.
func TestTrimDrops(t *testing.T) {
	there, moved := true, 0
	trimmer := newTrimmer(none, none, func(bool, func(int) bool) { moved++ }, func() (dropped bool) {
		dropped, there = there, false
		return dropped
	})
	trimmer.allocated = allocated()
	trimmer.trim(true)
	if there || moved != 1 {
		t.Errorf("left: %v; memory was given back %d times", there, moved)
	}
	trimmer.trim(true)
	if moved != 1 {
		t.Error("memory was given back though nothing was dropped")
	}
}
