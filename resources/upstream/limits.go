package upstream

import (
	"sync"
	"sync/atomic"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

// What kube-apiserver bounds by constants that it keeps to itself.
const (
	// BodyBytes is the most that a client may send in one request.
	BodyBytes = 3 << 20
	// PatchOperations is how many operations a JSON Patch may have.
	PatchOperations = 10000
	// PatchCopiedBytes is how many bytes the copy operations of a JSON Patch may make, in sum.
	PatchCopiedBytes = 3 << 20
)

// LimitPatchCopies has version 4 of the library of JSON Patch heed PatchCopiedBytes. It keeps the bound in a variable for all
// who use it.
var LimitPatchCopies = sync.OnceFunc(func() { atomic.StoreInt64(&jsonpatch.AccumulatedCopySizeLimit, PatchCopiedBytes) })
