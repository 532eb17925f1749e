// Package memprofile has the profile of memory sampled seldom: each place in the program that was seen to allocate is kept as long as the
// process lives, with its stack, and a server that has done many different things keeps megabytes of them for nobody to look at.
//
// Samples are told by the rate at which a profile is read, so that it must not change later. The package imports runtime alone: it is
// initialised before all that allocate much.
package memprofile

import "runtime"

const (
	// usual is runtime.MemProfileRate where nobody has set it by GODEBUG=memprofilerate=N.
	usual = 512 << 10
	// Rate is how many bytes are allocated between two samples, on average: of 30 MiB in use, a profile has seen ten or so.
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
