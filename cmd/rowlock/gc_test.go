package main

import (
	"runtime"
	"testing"
)

func TestMemoryLimit(t *testing.T) {
	const mib = 1 << 20
	for live, want := range map[int64]int64{0: 160 * mib, 64 * mib: 160 * mib, 96 * mib: 168 * mib, 1024 * mib: 1560 * mib} {
		if got := memoryLimit(live); got != want {
			t.Errorf("with %d MiB alive: %d MiB, want %d", live/mib, got/mib, want/mib)
		}
	}
}

func TestAfterEachGC(t *testing.T) {
	called := make(chan struct{}, 1)
	afterEachGC(func() {
		select {
		case called <- struct{}{}:
		default:
		}
	})
	for range 3 {
		// A collection right after the last call may come before the next one is waited for, so there may be several.
		for len(called) == 0 {
			runtime.GC()
		}
		<-called
	}
}
