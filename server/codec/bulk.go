package codec

import (
	"runtime"

	"github.com/rowlock/rowlock/resources"
)

// bulk is the state of a Renderer that renders many objects for one request.
type bulk struct {
	paced   bool   // messages are not cached, and garbage is collected in between
	decoded int    // bytes decoded since the last collection
	message []byte // the last message, if not cached; reused
}

// From pacedObjects objects on, garbage is collected after every pacedBytes that are decoded. Decoding leaves ten times as much behind, and the
// collector by itself would let the garbage grow to the size of the live heap: a list of a hundred thousand objects would double the memory of the
// process.
const (
	pacedObjects = 10_000
	pacedBytes   = 4 << 20
)

// Bulk says how many objects are rendered from now on. If there are several, their encodings are cached only while there is room. From pacedObjects
// on, their messages are not cached at all, because they would displace those in use.
func (r *Renderer) Bulk(objects int) {
	r.bulk = nil
	if objects > 1 {
		r.bulk = &bulk{paced: objects >= pacedObjects}
	}
}

// form returns an encoding of an object, from the cache or built.
func (r *Renderer) form(o *resources.Object, id string, build func() ([]byte, error)) ([]byte, error) {
	if r.bulk == nil {
		return o.Form(id, build)
	}
	return o.FormIfRoom(id, func() ([]byte, error) {
		r.bulk.pace(len(o.Data))
		return build()
	})
}

// pace accounts for bytes about to be decoded.
func (b *bulk) pace(bytes int) {
	if b.decoded += bytes; b.paced && b.decoded > pacedBytes {
		b.decoded = 0
		runtime.GC()
	}
}
