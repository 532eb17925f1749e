// Package memprofile lowers the sampling rate of the memory profile. The runtime keeps each allocation site that was sampled, with its
// stack, as long as the process lives; in a server that has done many different things these records take megabytes that are rarely read.
//
// The rate at the time of reading scales the samples of a profile, so it must not change later. The package imports only runtime, so it
// is initialised before all packages that allocate much.
package memprofile

import "runtime"

const (
	// usual is runtime.MemProfileRate unless GODEBUG=memprofilerate=N has set it.
	usual = 512 << 10
	// Rate is the average number of bytes that are allocated between two samples: with 30 MiB in use, a profile has about ten samples.
	Rate = 3 << 20
)

var _ = set()

func set() bool {
	if runtime.MemProfileRate != usual {
		return false
	}
	runtime.MemProfileRate = Rate
	return true
}
