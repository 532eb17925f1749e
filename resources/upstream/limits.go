package upstream

import (
	"sync"
	"sync/atomic"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

// Bounds that are unexported constants of kube-apiserver.
const (
	// BodyBytes is the greatest size of a request's body.
	BodyBytes = 3 << 20
	// PatchOperations is the greatest number of operations in a JSON Patch.
	PatchOperations = 10000
	// PatchCopiedBytes is the greatest sum of bytes that the copy operations of a JSON Patch may make.
	PatchCopiedBytes = 3 << 20
)

// LimitPatchCopies sets PatchCopiedBytes in version 4 of the JSON Patch library, whose bound is a variable for the whole
// process.
var LimitPatchCopies = sync.OnceFunc(func() { atomic.StoreInt64(&jsonpatch.AccumulatedCopySizeLimit, PatchCopiedBytes) })
